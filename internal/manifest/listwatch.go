package manifest

import (
	"context"
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// listWatch is one resource of a Source. It implements cache.ListerWatcher and
// cache.ListerWatcherWithContext.
type listWatch struct {
	source   *Source
	resource string
}

// List implements cache.Lister.
func (lw *listWatch) List(o metav1.ListOptions) (runtime.Object, error) {
	return lw.ListWithContext(context.Background(), o)
}

// Watch implements cache.Watcher.
func (lw *listWatch) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return lw.WatchWithContext(context.Background(), o)
}

// ListWithContext gives all objects that match the selectors. Limit is
// ignored, as an API server's watch cache does.
func (lw *listWatch) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.Continue != "" {
		return nil, apierrors.NewResourceExpired("lists come whole: there is nothing to continue")
	}
	rev, matches, err := lw.options(o)
	if err != nil {
		return nil, err
	}
	entries, now := lw.source.snapshot(lw.resource)
	if rev > now {
		return nil, tooLarge(rev, now)
	}
	if o.ResourceVersionMatch == metav1.ResourceVersionMatchExact && rev != now {
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("the objects of version %d are no longer here, these are of %d", rev, now))
	}
	return lw.list(entries, matches, metav1.ListMeta{ResourceVersion: format(now)}), nil
}

// WatchWithContext tells of changes after o.ResourceVersion. Without one, or
// when asked for initial events, it first adds all objects. It ends with ctx,
// Stop, o.TimeoutSeconds, or 410 Gone.
func (lw *listWatch) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	rev, matches, err := lw.options(o)
	if err != nil {
		return nil, err
	}
	entries, now := lw.source.snapshot(lw.resource)
	if rev > now {
		return nil, tooLarge(rev, now)
	}
	w := &watcher{listWatch: lw, matches: matches, rev: rev, stop: make(chan struct{}), results: make(chan watch.Event)}
	if o.SendInitialEvents != nil && *o.SendInitialEvents || o.SendInitialEvents == nil && rev == 0 {
		w.initial, w.rev = entries, now
		w.bookmark = o.SendInitialEvents != nil && o.AllowWatchBookmarks
	} else if rev == 0 {
		w.rev = now
	} else if _, expired, _ := lw.source.after(lw.resource, rev); expired {
		return nil, expiredAt(rev)
	}
	go w.run(ctx, o.TimeoutSeconds) // until Stop, ctx, the timeout, or an error
	return w, nil
}

// options reads what is used of o; revision 0 is any.
func (lw *listWatch) options(o metav1.ListOptions) (rev uint64, matches func(object) bool, err error) {
	if _, ok := lw.source.tables[lw.resource]; !ok {
		return 0, nil, apierrors.NewNotFound(schema.GroupResource{Resource: lw.resource}, "")
	}
	if o.ResourceVersion != "" {
		if rev, err = strconv.ParseUint(o.ResourceVersion, 10, 64); err != nil {
			return 0, nil, apierrors.NewBadRequest(fmt.Sprintf("resourceVersion %q: not a number", o.ResourceVersion))
		}
	}
	matches, err = lw.selector(o)
	return rev, matches, err
}

// selector gives the objects that both selectors of o match.
func (lw *listWatch) selector(o metav1.ListOptions) (func(object) bool, error) {
	byLabel, err := labels.Parse(o.LabelSelector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(o.FieldSelector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	for _, r := range byField.Requirements() {
		switch {
		case r.Field == "metadata.name", r.Field == "metadata.namespace":
		case r.Field == "spec.nodeName" && lw.resource == "pods":
		default:
			return nil, apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", r.Field))
		}
	}
	return func(o object) bool {
		if !byLabel.Matches(labels.Set(o.GetLabels())) {
			return false
		}
		if byField.Empty() {
			return true
		}
		set := fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
		if p, ok := o.(*v1.Pod); ok {
			set["spec.nodeName"] = p.Spec.NodeName
		}
		return byField.Matches(set)
	}, nil
}

func (lw *listWatch) list(entries []*entry, matches func(object) bool, meta metav1.ListMeta) runtime.Object {
	switch lw.resource {
	case "configmaps":
		return &v1.ConfigMapList{ListMeta: meta, Items: items[v1.ConfigMap](entries, matches)}
	case "services":
		return &v1.ServiceList{ListMeta: meta, Items: items[v1.Service](entries, matches)}
	case "nodes":
		return &v1.NodeList{ListMeta: meta, Items: items[v1.Node](entries, matches)}
	case "pods":
		return &v1.PodList{ListMeta: meta, Items: items[v1.Pod](entries, matches)}
	default:
		return &discoveryv1.EndpointSliceList{ListMeta: meta, Items: items[discoveryv1.EndpointSlice](entries, matches)}
	}
}

// items copies the objects that match, in order.
func items[T any, P interface {
	*T
	DeepCopyInto(*T)
	SetResourceVersion(string)
}](entries []*entry, matches func(object) bool) []T {
	list := make([]T, 0, len(entries))
	for _, e := range entries {
		if !matches(e.object) {
			continue
		}
		list = append(list, *new(T))
		item := P(&list[len(list)-1])
		any(e.object).(P).DeepCopyInto((*T)(item))
		item.SetResourceVersion(format(e.rv))
	}
	return list
}

// emptyObject is an object of the resource's type, for bookmarks.
func (lw *listWatch) emptyObject() object {
	for _, k := range kinds() {
		if k.resource == lw.resource {
			return k.empty()
		}
	}
	return nil
}

func format(rev uint64) string { return strconv.FormatUint(rev, 10) }

func expiredAt(rev uint64) *apierrors.StatusError {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d", rev))
}

// tooLarge is how an API server refuses a version it has not reached: a
// reflector then asks for whatever there is.
func tooLarge(rev, now uint64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", rev, now), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return err
}
