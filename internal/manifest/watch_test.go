package manifest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

func everything() metav1.ListOptions { return metav1.ListOptions{} }

// directory is a source without Run: the test loads when it wants.
type directory struct {
	*testing.T
	*Source
	dir string
}

func directoryOf(t *testing.T, o Options, files ...string) *directory {
	t.Helper()
	dir := tree(t, files...)
	s, err := New(dir, nil, o)
	must(t, err)
	return &directory{T: t, Source: s, dir: dir}
}

func (d *directory) edit(name, text string) {
	d.Helper()
	put(d, d.dir, name, text)
	d.load(scan(d.dir))
	must(d, d.Err())
}

func (d *directory) list(resource string, o metav1.ListOptions) (rv, names string) {
	d.Helper()
	list, err := d.ListerWatcher(resource).(*listWatch).List(o)
	must(d, err)
	m, err := meta.ListAccessor(list)
	must(d, err)
	var all []string
	must(d, meta.EachListItem(list, func(o runtime.Object) error {
		all = append(all, keyOf(o.(object)))
		return nil
	}))
	return m.GetResourceVersion(), strings.Join(all, " ")
}

func (d *directory) watch(resource string, o metav1.ListOptions) watch.Interface {
	d.Helper()
	w, err := d.ListerWatcher(resource).(*listWatch).Watch(o)
	must(d, err)
	d.Cleanup(w.Stop)
	return w
}

// next is the next n events.
func next(t *testing.T, w watch.Interface, n int) []string {
	t.Helper()
	var all []string
	timeout := time.After(30 * time.Second)
	for len(all) < n {
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				return append(all, "closed")
			}
			switch o := e.Object.(type) {
			case *metav1.Status:
				all = append(all, fmt.Sprintf("%s %d %s", e.Type, o.Code, o.Reason))
			case object:
				s := fmt.Sprintf("%s %s", e.Type, o.GetName())
				if cm, ok := o.(*v1.ConfigMap); ok && cm.Data != nil {
					s += "=" + cm.Data["key"]
				}
				all = append(all, s)
			}
		case <-timeout:
			t.Fatalf("no more events after %v", all)
		}
	}
	return all
}

func expect(t *testing.T, w watch.Interface, want ...string) {
	t.Helper()
	if got := next(t, w, len(want)); !slices.Equal(got, want) {
		t.Fatalf("got  %v\nwant %v", got, want)
	}
}

func TestListAndWatch(t *testing.T) {
	d := directoryOf(t, Options{}, "a.yaml", configMap("a", "1"), "b.yaml", configMap("b", "1"))
	rv, names := d.list("configmaps", everything())
	if names != "lb/a lb/b" {
		t.Fatal(names)
	}
	if again, _ := d.list("configmaps", metav1.ListOptions{ResourceVersion: "0", Limit: 1}); again != rv {
		t.Errorf("%s, then %s", rv, again)
	}
	w := d.watch("configmaps", metav1.ListOptions{ResourceVersion: rv})
	d.edit("a.yaml", configMap("a", "2"))
	expect(t, w, "MODIFIED a=2")
	d.edit("b.yaml", configMap("c", "1"))
	expect(t, w, "DELETED b=1", "ADDED c=1")
	// The whole of it again, for one that had not watched.
	expect(t, d.watch("configmaps", metav1.ListOptions{ResourceVersion: rv}), "MODIFIED a=2", "DELETED b=1", "ADDED c=1")
	// Other resources are not concerned.
	other := d.watch("services", metav1.ListOptions{ResourceVersion: rv})
	d.edit("s.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n")
	expect(t, other, "ADDED s")
}

// An object's version is that of its last event, and stays while others change.
func TestResourceVersions(t *testing.T) {
	d := directoryOf(t, Options{}, "a.yaml", configMap("a", "1"), "b.yaml", configMap("b", "1")+"---\n"+configMap("c", "1"))
	versions := func() map[string]string {
		list, err := d.ListerWatcher("configmaps").(*listWatch).List(everything())
		must(t, err)
		m := map[string]string{}
		for _, cm := range list.(*v1.ConfigMapList).Items {
			m[cm.Name] = cm.ResourceVersion
		}
		return m
	}
	before := versions()
	rv, _ := d.list("configmaps", everything())
	d.edit("b.yaml", configMap("c", "2")+"---\n"+configMap("b", "2"))
	after := versions()
	if after["a"] != before["a"] {
		t.Errorf("a was at %s and is at %s", before["a"], after["a"])
	}
	w := d.watch("configmaps", metav1.ListOptions{ResourceVersion: rv})
	for _, name := range []string{"b", "c"} {
		e := <-w.ResultChan()
		if cm := e.Object.(*v1.ConfigMap); cm.Name != name || cm.ResourceVersion != after[name] || after[name] == before[name] {
			t.Errorf("%s is at %s in the event and at %s in the list", cm.Name, cm.ResourceVersion, after[name])
		}
	}
}

// Each event has a resource version of its own: a watch that was cut between
// two of one load goes on behind the first.
func TestWatchResumes(t *testing.T) {
	d := directoryOf(t, Options{}, "a.yaml", configMap("a", "1"))
	rv, _ := d.list("configmaps", everything())
	d.edit("a.yaml", configMap("b", "1")+"---\n"+configMap("c", "1"))
	w := d.watch("configmaps", metav1.ListOptions{ResourceVersion: rv})
	seen := map[string]bool{}
	for _, want := range []string{"a", "b", "c"} {
		e := <-w.ResultChan()
		w.Stop()
		o := e.Object.(*v1.ConfigMap)
		if o.Name != want || seen[o.ResourceVersion] {
			t.Fatalf("%s %s at %s, want %s", e.Type, o.Name, o.ResourceVersion, want)
		}
		seen[o.ResourceVersion] = true
		w = d.watch("configmaps", metav1.ListOptions{ResourceVersion: o.ResourceVersion})
	}
}

func TestStreamedList(t *testing.T) {
	d := directoryOf(t, Options{}, "a.yaml", configMap("a", "1"), "b.yaml", configMap("b", "1"))
	streamed := metav1.ListOptions{SendInitialEvents: ptr.To(true), AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
	w := d.watch("configmaps", streamed)
	expect(t, w, "ADDED a=1", "ADDED b=1")
	e := <-w.ResultChan()
	bookmark, ok := e.Object.(*v1.ConfigMap)
	rv, _ := d.list("configmaps", everything())
	if !ok || e.Type != watch.Bookmark || bookmark.Annotations[metav1.InitialEventsAnnotationKey] != "true" || bookmark.ResourceVersion != rv {
		t.Fatalf("%+v", e)
	}
	d.edit("a.yaml", configMap("a", "2"))
	expect(t, w, "MODIFIED a=2")
	for _, resource := range []string{"services", "endpointslices", "nodes", "pods"} {
		if e := <-d.watch(resource, streamed).ResultChan(); e.Type != watch.Bookmark {
			t.Errorf("%s: %+v", resource, e)
		}
	}
	// The older way to the same: no version at all.
	expect(t, d.watch("configmaps", everything()), "ADDED a=2", "ADDED b=1")
	// And none of it.
	w = d.watch("configmaps", metav1.ListOptions{SendInitialEvents: ptr.To(false)})
	d.edit("a.yaml", configMap("a", "3"))
	expect(t, w, "MODIFIED a=3")
}

func TestExpired(t *testing.T) {
	d := directoryOf(t, Options{history: 2}, "a.yaml", configMap("a", "0"))
	lw := d.ListerWatcher("configmaps").(*listWatch)
	rv, _ := d.list("configmaps", everything())
	slow := d.watch("configmaps", metav1.ListOptions{ResourceVersion: rv})
	d.edit("a.yaml", configMap("a", "1"))
	<-slow.ResultChan()
	for i := range 9 {
		d.edit("a.yaml", configMap("a", fmt.Sprint(2+i))) // no one reads slow, and nothing waits for it
	}
	events := next(t, slow, 20)
	if tail := events[len(events)-2:]; !slices.Equal(tail, []string{"ERROR 410 Expired", "closed"}) {
		t.Errorf("%v", events)
	}
	for _, old := range []string{rv, "1"} {
		if _, err := lw.Watch(metav1.ListOptions{ResourceVersion: old}); !apierrors.IsResourceExpired(err) {
			t.Errorf("from %s: %v", old, err)
		}
	}
	now, _ := d.list("configmaps", everything())
	w := d.watch("configmaps", metav1.ListOptions{ResourceVersion: now})
	d.edit("a.yaml", configMap("a", "x"))
	expect(t, w, "MODIFIED a=x")
}

// Before New there is nothing to tell of.
func TestWatchFromBeforeTheFirstLoad(t *testing.T) {
	d := directoryOf(t, Options{}, "a.yaml", configMap("a", "0")+"---\n"+configMap("b", "0"))
	if _, err := d.ListerWatcher("configmaps").(*listWatch).Watch(metav1.ListOptions{ResourceVersion: "1"}); !apierrors.IsResourceExpired(err) {
		t.Error(err)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	d := directoryOf(t, Options{history: 10}, "a.yaml", configMap("a", "0"))
	for i := range 100 {
		d.edit("a.yaml", configMap("a", fmt.Sprint(i+1)))
		if n := len(d.tables["configmaps"].events); n > 20 {
			t.Fatalf("%d events kept", n)
		}
	}
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "---\n%s", configMap(fmt.Sprint("o", i), ""))
	}
	d.edit("a.yaml", b.String())
	if n := len(d.tables["configmaps"].events); n > 20 {
		t.Fatalf("%d events kept", n)
	}
}

func TestSelectors(t *testing.T) {
	pod := func(name, namespace, node, label string) string {
		return fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: %s, labels: {app: %s}}\nspec: {nodeName: %s}\n", name, namespace, label, node)
	}
	d := directoryOf(t, Options{}, "a.yaml", pod("a", "x", "n1", "web")+pod("b", "x", "n2", "web")+pod("a", "z", "n2", "db"))
	for selector, want := range map[string]string{
		"":                                       "x/a x/b z/a",
		"metadata.name=a":                        "x/a z/a",
		"metadata.namespace=x":                   "x/a x/b",
		"metadata.name=a,metadata.namespace=z":   "z/a",
		"metadata.name!=a":                       "x/b",
		"spec.nodeName=n2":                       "x/b z/a",
		"spec.nodeName=n2,metadata.namespace==x": "x/b",
		"metadata.name=c":                        "",
	} {
		o := metav1.ListOptions{FieldSelector: selector}
		if _, got := d.list("pods", o); got != want {
			t.Errorf("%q: %s, want %s", selector, got, want)
		}
		o.SendInitialEvents, o.AllowWatchBookmarks = ptr.To(true), true
		if got := next(t, d.watch("pods", o), len(strings.Fields(want))+1); !strings.HasPrefix(got[len(got)-1], "BOOKMARK") {
			t.Errorf("%q: %v", selector, got)
		}
	}
	if _, got := d.list("pods", metav1.ListOptions{LabelSelector: "app in (db)"}); got != "z/a" {
		t.Error(got)
	}

	// An object that comes to match is added, one that no longer does is deleted.
	rv, _ := d.list("pods", everything())
	w := d.watch("pods", metav1.ListOptions{ResourceVersion: rv, FieldSelector: "spec.nodeName=n1"})
	d.edit("a.yaml", pod("a", "x", "n9", "web")+pod("b", "x", "n1", "web")+pod("a", "z", "n2", "other"))
	e := <-w.ResultChan()
	if p := e.Object.(*v1.Pod); e.Type != watch.Deleted || p.Name != "a" || p.Spec.NodeName != "n1" {
		t.Errorf("%s %+v", e.Type, p)
	}
	expect(t, w, "ADDED b")
}

func TestRefusals(t *testing.T) {
	d := directoryOf(t, Options{}, "a.yaml", configMap("a", "0"))
	rv, _ := d.list("configmaps", everything())
	d.edit("a.yaml", configMap("a", "1"))
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for name, tc := range map[string]struct {
		resource string
		ctx      context.Context
		o        metav1.ListOptions
		list     func(error) bool
		watch    func(error) bool
	}{
		"unknown resource":       {resource: "secrets", list: apierrors.IsNotFound, watch: apierrors.IsNotFound},
		"unknown field":          {o: metav1.ListOptions{FieldSelector: "data.x=y"}, list: apierrors.IsBadRequest, watch: apierrors.IsBadRequest},
		"a field of pods":        {o: metav1.ListOptions{FieldSelector: "spec.nodeName=n"}, list: apierrors.IsBadRequest, watch: apierrors.IsBadRequest},
		"no field selector":      {o: metav1.ListOptions{FieldSelector: "x"}, list: apierrors.IsBadRequest, watch: apierrors.IsBadRequest},
		"no label selector":      {o: metav1.ListOptions{LabelSelector: "="}, list: apierrors.IsBadRequest, watch: apierrors.IsBadRequest},
		"no version":             {o: metav1.ListOptions{ResourceVersion: "x"}, list: apierrors.IsBadRequest, watch: apierrors.IsBadRequest},
		"a version to come":      {o: metav1.ListOptions{ResourceVersion: "99"}, list: tooLargeError, watch: tooLargeError},
		"an exact version":       {o: metav1.ListOptions{ResourceVersion: rv, ResourceVersionMatch: metav1.ResourceVersionMatchExact}, list: apierrors.IsResourceExpired, watch: isNil},
		"continue":               {o: metav1.ListOptions{Continue: "x"}, list: apierrors.IsResourceExpired, watch: isNil},
		"a context that is done": {ctx: canceled, list: isCanceled, watch: isCanceled},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.resource == "" {
				tc.resource = "configmaps"
			}
			if tc.ctx == nil {
				tc.ctx = context.Background()
			}
			lw := d.ListerWatcher(tc.resource).(*listWatch)
			if _, err := lw.ListWithContext(tc.ctx, tc.o); !tc.list(err) {
				t.Errorf("list: %v", err)
			}
			w, err := lw.WatchWithContext(tc.ctx, tc.o)
			if !tc.watch(err) {
				t.Errorf("watch: %v", err)
			}
			if w != nil {
				w.Stop()
			}
		})
	}
}

func isNil(err error) bool      { return err == nil }
func isCanceled(err error) bool { return err == context.Canceled }
func tooLargeError(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

func TestWatchEnds(t *testing.T) {
	d := directoryOf(t, Options{}, "a.yaml", configMap("a", "1"))
	rv, _ := d.list("configmaps", everything())
	lw := d.ListerWatcher("configmaps").(*listWatch)
	// ended: the goroutine is gone, and only then is the channel looked at.
	ended := func(t *testing.T, w watch.Interface) {
		t.Helper()
		waitFor(t, "the end of the watch", func() bool { return goleak.Find() == nil })
		if e, open := <-w.ResultChan(); open {
			t.Errorf("an event after the end: %+v", e)
		}
	}
	for name, o := range map[string]metav1.ListOptions{
		"idle": {ResourceVersion: rv}, "with events that no one reads": {},
	} {
		t.Run(name+", stopped", func(t *testing.T) {
			w, err := lw.Watch(o)
			must(t, err)
			var group sync.WaitGroup
			for range 3 {
				group.Go(w.Stop)
			}
			group.Wait()
			ended(t, w)
		})
		t.Run(name+", its context done", func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			w, err := lw.WatchWithContext(ctx, o)
			must(t, err)
			cancel()
			ended(t, w)
		})
		t.Run(name+", timed out", func(t *testing.T) {
			o.TimeoutSeconds = ptr.To(int64(1))
			w, err := lw.Watch(o)
			must(t, err)
			ended(t, w)
		})
	}
}

// Whoever gets an object may change it.
func TestObjectsAreCopies(t *testing.T) {
	d := directoryOf(t, Options{}, "a.yaml", configMap("a", "1"))
	for range 2 {
		list, err := d.ListerWatcher("configmaps").(*listWatch).List(everything())
		must(t, err)
		e := <-d.watch("configmaps", everything()).ResultChan()
		for _, cm := range []*v1.ConfigMap{&list.(*v1.ConfigMapList).Items[0], e.Object.(*v1.ConfigMap)} {
			if cm.Data["key"] != "1" || cm.APIVersion != "" || cm.Kind != "" || cm.ResourceVersion == "" {
				t.Fatalf("%+v", cm)
			}
			cm.Data["key"] = "changed"
		}
	}
}

// An object of the same name with another UID is another object.
func TestReplacedObject(t *testing.T) {
	d := directoryOf(t, Options{}, "a.yaml", strings.Replace(configMap("a", "1"), "  name:", "  uid: u1\n  name:", 1))
	rv, _ := d.list("configmaps", everything())
	w := d.watch("configmaps", metav1.ListOptions{ResourceVersion: rv})
	d.edit("a.yaml", strings.Replace(configMap("a", "2"), "  name:", "  uid: u2\n  name:", 1))
	expect(t, w, "DELETED a=1", "ADDED a=2")
}

// managedFields and the resource version of a print are not ours.
func TestPrintedMetadata(t *testing.T) {
	d := directoryOf(t, Options{}, "a.yaml", strings.Replace(configMap("a", "1"), "  name:", "  resourceVersion: \"77\"\n  managedFields: [{manager: m}]\n  name:", 1))
	list, err := d.ListerWatcher("configmaps").(*listWatch).List(everything())
	must(t, err)
	cm := list.(*v1.ConfigMapList).Items[0]
	if cm.ResourceVersion == "77" || cm.ManagedFields != nil {
		t.Errorf("%+v", cm.ObjectMeta)
	}
	rv, _ := d.list("configmaps", everything())
	d.edit("a.yaml", strings.Replace(configMap("a", "1"), "  name:", "  resourceVersion: \"78\"\n  name:", 1))
	if now, _ := d.list("configmaps", everything()); now != rv {
		t.Errorf("%s became %s", rv, now)
	}
}
