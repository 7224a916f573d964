package manifest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNewErrors(t *testing.T) {
	empty := t.TempDir()
	missing := filepath.Join(empty, "missing")
	twice := tree(t, "a.yaml", configMap("a", "x"), "b/c.json", cmA+"\n"+`{"apiVersion":"v1","kind":"ConfigMap",`+"\n"+`"metadata":{"name":"a","namespace":"lb"}}`)
	endpoints := tree(t, "a.yaml", webEndpoints+"---\n"+webEndpoints)
	many := tree(t, "a.yaml", "a: 1\n", "b.yml", "apiVersion: v1\nkind: Node\n", "c.json", configMap("a", "x"), "d.yaml", "{")
	hidden := tree(t, ".a.yaml", "x", "..data/a.yaml", "x", "README.md", "x")
	dangling := tree(t, "a.yaml", cmA)
	must(t, os.Symlink("nowhere", filepath.Join(dangling, "b.yaml")))
	odd := tree(t, "a.yaml", cmA)
	must(t, os.Symlink("/dev/null", filepath.Join(odd, "b.yaml")))
	for name, tc := range map[string]struct {
		dir  string
		want []string
	}{
		"missing": {missing, []string{"manifests " + missing + ": does not exist; name a directory"}},
		"empty":   {empty, []string{"manifests " + empty + ": no *.yaml, *.yml or *.json file in this directory or below"}},
		"hidden":  {hidden, []string{"manifests " + hidden + ": no *.yaml"}},
		"an object twice": {twice, []string{
			twice + "/b/c.json: document 2 (line 2): ConfigMap lb/a is already in " + twice + "/a.yaml: document 1 (line 1); remove one of them"}},
		"endpoints twice": {endpoints, []string{
			endpoints + "/a.yaml: document 2 (line 23): Endpoints default/web is already in " + endpoints + "/a.yaml: document 1 (line 1); remove one of them"}},
		"all at once":        {many, []string{many + "/a.yaml: document 1 (line 1): no kind", many + "/b.yml: document 1 (line 1): Node: metadata.name: missing", many + "/d.yaml: document 1 (line 1): not valid YAML"}},
		"a dangling link":    {dangling, []string{dangling + "/b.yaml: a symbolic link to a file that does not exist"}},
		"not a regular file": {odd, []string{odd + "/b.yaml: not a regular file"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(tc.dir, nil, Options{})
			if err == nil {
				t.Fatal("no error")
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(tc.want) {
				t.Errorf("got %v", err)
			}
			for i := range min(len(lines), len(tc.want)) {
				if !strings.HasPrefix(lines[i], tc.want[i]) {
					t.Errorf("got  %s\nwant %s", lines[i], tc.want[i])
				}
			}
		})
	}
}

func TestNewReads(t *testing.T) {
	dir := tree(t, "a.yaml", configMap("a", "x"), "sub/b.YML", configMap("b", "x"), "sub/deep/c.json", cmA,
		".hidden.yaml", "{", "a.yaml~", "{", "README.md", "{", ".git/x.yaml", "{", "empty.yaml", "")
	must(t, os.Symlink("..", filepath.Join(dir, "sub", "up"))) // must not be followed for ever
	s, err := New(dir, nil, Options{})
	must(t, err)
	var all []string
	for _, e := range s.tables["configmaps"].sorted {
		all = append(all, keyOf(e.object))
	}
	if got := strings.Join(all, " "); got != "default/a lb/a lb/b" {
		t.Error(got)
	}
	if s.Dir() != dir || s.Err() != nil {
		t.Error(s.Dir(), s.Err())
	}
}

func TestInformerSeesEdits(t *testing.T) {
	dir := tree(t, "a.yaml", configMap("a", "1"), "b.yaml", configMap("b", "1"))
	c := follow(t, dir, "configmaps", &v1.ConfigMap{}, Options{})
	c.becomes("a=1 b=1")

	// In place.
	put(t, dir, "a.yaml", configMap("a", "2"))
	c.becomes("a=2 b=1")
	if c.happened("update b") != 0 {
		t.Error("b has not changed, but an event says so")
	}

	// As editors do: a new file takes the name.
	put(t, dir, ".a.yaml.swp", configMap("a", "3"))
	must(t, os.Rename(filepath.Join(dir, ".a.yaml.swp"), filepath.Join(dir, "a.yaml")))
	c.becomes("a=3 b=1")

	// A new file, and a new directory with one.
	put(t, dir, "c.yaml", configMap("c", "1"))
	c.becomes("a=3 b=1 c=1")
	put(t, dir, "sub/deep/d.yaml", configMap("d", "1"))
	c.becomes("a=3 b=1 c=1 d=1")
	put(t, dir, "sub/deep/d.yaml", configMap("d", "2"))
	c.becomes("a=3 b=1 c=1 d=2")

	// A file gone is its objects gone; so is a directory.
	must(t, os.Remove(filepath.Join(dir, "b.yaml")))
	c.becomes("a=3 c=1 d=2")
	must(t, os.RemoveAll(filepath.Join(dir, "sub")))
	c.becomes("a=3 c=1")
	put(t, dir, "sub/d.yaml", configMap("d", "3"))
	c.becomes("a=3 c=1 d=3")
	put(t, dir, "sub/d.yaml", configMap("d", "4"))
	c.becomes("a=3 c=1 d=4")
	must(t, os.Rename(filepath.Join(dir, "sub"), filepath.Join(dir, ".old")))
	c.becomes("a=3 c=1")

	// An object that moves to another file is the same object.
	must(t, os.Rename(filepath.Join(dir, "c.yaml"), filepath.Join(dir, "z.yaml")))
	put(t, dir, "e.yaml", configMap("e", "1"))
	c.becomes("a=3 c=1 e=1")
	waitFor(t, "the handlers", func() bool { return c.happened("add e") == 1 })
	if c.happened("add c") != 1 || c.happened("update c") != 0 || c.happened("delete c") != 0 {
		t.Error("c was moved, not changed", c.story())
	}
	if n := c.log.count("level=INFO"); n == 0 || c.log.count("level=ERROR")+c.log.count("level=WARN") > 0 {
		t.Error(c.log)
	}
}

func TestUnchangedContentIsNoEvent(t *testing.T) {
	dir := tree(t, "a.yaml", configMap("a", "1")+"---\n"+configMap("b", "1"))
	c := follow(t, dir, "configmaps", &v1.ConfigMap{}, Options{})
	before, _, err := c.informer.GetStore().GetByKey("lb/b")
	must(t, err)
	swap(t, dir, "a.yaml", "# moved, and written in another order\n---\n"+configMap("b", "1")+"---\n"+configMap("a", "2"))
	c.becomes("a=2 b=1")
	after, _, err := c.informer.GetStore().GetByKey("lb/b")
	must(t, err)
	if b, a := before.(*v1.ConfigMap), after.(*v1.ConfigMap); b.ResourceVersion != a.ResourceVersion || b.UID != a.UID || a.UID == "" {
		t.Errorf("%+v became %+v", b.ObjectMeta, a.ObjectMeta)
	}
	swap(t, dir, "e.yaml", configMap("e", "1"))
	waitFor(t, "the handlers", func() bool { return c.happened("add e") == 1 })
	if c.happened("update a") != 1 || c.happened("update b") != 0 {
		t.Error(c.story())
	}
}

// mount makes dir look like a mounted ConfigMap whose newest content is version.
func mount(t *testing.T, dir, version, text string) {
	t.Helper()
	put(t, dir, "..v"+version+"/a.yaml", text)
	put(t, dir, "..v"+version+"/sub/b.yaml", configMap("b", version))
	must(t, os.Symlink("..v"+version, filepath.Join(dir, "..data_tmp")))
	must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	for _, name := range []string{"a.yaml", "sub"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
}

func TestMountedConfigMap(t *testing.T) {
	for name, file := range map[string]string{"directory": "", "single file": "a.yaml"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			mount(t, dir, "1", configMap("a", "1"))
			c := follow(t, filepath.Join(dir, file), "configmaps", &v1.ConfigMap{}, Options{})
			want := func(v string) string {
				if file != "" {
					return "a=" + v
				}
				return "a=" + v + " b=" + v
			}
			c.becomes(want("1"))
			for _, v := range []string{"2", "3"} {
				mount(t, dir, v, configMap("a", v))
				c.becomes(want(v))
				must(t, os.RemoveAll(filepath.Join(dir, "..v1")))
			}
		})
	}
}

// The directory itself may be a link that is swapped, or be replaced.
func TestDirectoryIsSwapped(t *testing.T) {
	parent := tree(t, "v1/a.yaml", configMap("a", "1"), "v2/a.yaml", configMap("a", "2"))
	dir := filepath.Join(parent, "current")
	must(t, os.Symlink("v1", dir))
	c := follow(t, dir, "configmaps", &v1.ConfigMap{}, Options{})
	c.becomes("a=1")
	must(t, os.Symlink("v2", filepath.Join(parent, "next")))
	must(t, os.Rename(filepath.Join(parent, "next"), dir))
	c.becomes("a=2")
	put(t, parent, "v2/a.yaml", configMap("a", "3"))
	c.becomes("a=3")

	must(t, os.Rename(dir, filepath.Join(parent, "away")))
	waitFor(t, "the error", func() bool { return c.source.Err() != nil })
	if c.state() != "a=3" {
		t.Error("the objects went with the directory")
	}
	put(t, parent, "current/a.yaml", configMap("a", "4"))
	c.becomes("a=4")
	if c.source.Err() != nil {
		t.Error(c.source.Err())
	}

	// A directory in the place of another, not a link.
	must(t, os.Rename(dir, filepath.Join(parent, "before")))
	put(t, parent, "current/a.yaml", configMap("a", "5"))
	c.becomes("a=5")
	put(t, parent, "current/a.yaml", configMap("a", "6"))
	c.becomes("a=6")
}

func TestBrokenEdit(t *testing.T) {
	dir := tree(t, "a.yaml", configMap("a", "1"), "b.yaml", configMap("b", "1"))
	c := follow(t, dir, "configmaps", &v1.ConfigMap{}, Options{})
	swap(t, dir, "a.yaml", configMap("a", "2")+"---\napiVersion: v1\nkind: [\n")
	waitFor(t, "the error", func() bool { return c.source.Err() != nil })
	if want := filepath.Join(dir, "a.yaml") + ": document 2 (line 10): not valid YAML"; !strings.HasPrefix(c.source.Err().Error(), want) {
		t.Errorf("%v\nwant %s", c.source.Err(), want)
	}
	// The same mistake is logged once, though it is met again; another edit waits for it to be mended.
	swap(t, dir, "b.yaml", configMap("b", "2"))
	swap(t, dir, "c.yaml", "a: 1\n")
	waitFor(t, "the second error", func() bool { return strings.Contains(c.source.Err().Error(), "c.yaml") })
	must(t, os.Remove(filepath.Join(dir, "c.yaml")))
	waitFor(t, "the first error alone", func() bool { return !strings.Contains(c.source.Err().Error(), "c.yaml") })
	if c.state() != "a=1 b=1" {
		t.Errorf("a broken edit took effect: %s", c.state())
	}
	swap(t, dir, "a.yaml", configMap("a", "3"))
	c.becomes("a=3 b=2")
	if c.source.Err() != nil {
		t.Error(c.source.Err())
	}
	waitFor(t, "the good news", func() bool { return c.log.count("can be read again") > 0 })
	if n, mended := c.log.count("level=ERROR"), c.log.count("can be read again"); n != 2 || mended != 1 {
		t.Errorf("%d errors, %d mended:\n%s", n, mended, c.log)
	}
	// And once more: it is news again.
	swap(t, dir, "a.yaml", configMap("a", "2")+"---\napiVersion: v1\nkind: [\n")
	waitFor(t, "the error", func() bool { return c.source.Err() != nil })
	waitFor(t, "its log line", func() bool { return c.log.count("level=ERROR") == 3 })
}

// The last manifest gone is no empty cluster.
func TestLastFileRemoved(t *testing.T) {
	dir := tree(t, "a.yaml", configMap("a", "1"))
	c := follow(t, dir, "configmaps", &v1.ConfigMap{}, Options{})
	must(t, os.Remove(filepath.Join(dir, "a.yaml")))
	waitFor(t, "the error", func() bool { return c.source.Err() != nil })
	if c.state() != "a=1" {
		t.Error(c.state())
	}
	put(t, dir, "a.yaml", "# empty on purpose\n")
	c.becomes("")
}

func TestSingleFile(t *testing.T) {
	dir := tree(t, "cluster.dump", configMap("a", "1"), "other.yaml", configMap("b", "1"))
	path := filepath.Join(dir, "cluster.dump")
	c := follow(t, path, "configmaps", &v1.ConfigMap{}, Options{})
	c.becomes("a=1")
	if c.source.Dir() != path {
		t.Error(c.source.Dir())
	}
	put(t, dir, "new", configMap("a", "2"))
	must(t, os.Rename(filepath.Join(dir, "new"), path))
	c.becomes("a=2")
}

// Without events (network file systems) the poll finds every change.
func TestPoll(t *testing.T) {
	dir := tree(t, "a.yaml", configMap("a", "1"))
	c := follow(t, dir, "configmaps", &v1.ConfigMap{}, Options{Poll: 5 * time.Millisecond, silent: true})
	c.becomes("a=1")
	for i := range 20 {
		// Equal sizes within one tick of the file system's clock.
		put(t, dir, "a.yaml", configMap("a", fmt.Sprint(i%10)))
		c.becomes(fmt.Sprintf("a=%d", i%10))
	}
	put(t, dir, "b.yaml", configMap("b", "1"))
	c.becomes("a=9 b=1")
	put(t, dir, "b.yaml", "{")
	waitFor(t, "the error", func() bool { return c.source.Err() != nil })
	must(t, os.Remove(filepath.Join(dir, "b.yaml")))
	c.becomes("a=9")
	if c.log.count("level=ERROR") != 1 {
		t.Error(c.log)
	}
}

// Files that stay are not read again, neither by the poll nor for another's edit.
func TestUnchangedFilesAreNotRead(t *testing.T) {
	dir := tree(t, "a.yaml", configMap("a", "1"), "b.yaml", configMap("b", "1"))
	old := time.Now().Add(-time.Hour)
	for _, f := range []string{"a.yaml", "b.yaml"} {
		must(t, os.Chtimes(filepath.Join(dir, f), old, old))
	}
	s, err := New(dir, nil, Options{})
	must(t, err)
	for _, f := range s.files {
		f.racy = false // as they are two seconds after the change
	}
	a := s.files[filepath.Join(dir, "a.yaml")]
	if !s.current(scan(dir)) {
		t.Error("nothing has changed")
	}
	put(t, dir, "b.yaml", configMap("b", "2"))
	l := scan(dir)
	if s.current(l) {
		t.Error("b has changed")
	}
	s.load(l)
	if s.files[filepath.Join(dir, "a.yaml")] != a {
		t.Error("a was read again")
	}
	if got := s.tables["configmaps"].sorted[1].object.(*v1.ConfigMap).Data["key"]; got != "2" {
		t.Errorf("b is %s", got)
	}
	// It was written just now: a second write in the same tick of the clock would look the same.
	if !s.files[filepath.Join(dir, "b.yaml")].racy || s.current(l) {
		t.Error("b is trusted at once")
	}
	must(t, os.Remove(filepath.Join(dir, "b.yaml")))
	if l = scan(dir); s.current(l) {
		t.Error("b is gone")
	}
	// The change time tells, though size and modification time are as before.
	s.load(l)
	put(t, dir, "a.yaml", configMap("a", "9"))
	must(t, os.Chtimes(filepath.Join(dir, "a.yaml"), old, old))
	if s.current(scan(dir)) {
		t.Error("a has changed")
	}
}

func TestRacySignature(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		mtime time.Duration
		want  bool
	}{"just written": {-time.Millisecond, true}, "a second ago": {-time.Second, true}, "a minute ago": {-time.Minute, false}, "in the future": {time.Minute, false}} {
		sig := signature{mtime: now.Add(tc.mtime).UnixNano()}
		if sig.racy(now) != tc.want {
			t.Error(name)
		}
	}
}

// Endpoints become slices while the informer watches, and slices win when they come.
func TestInformerSeesMirroredEndpoints(t *testing.T) {
	dir := tree(t, "a.yaml", strings.Replace(webEndpoints, "- {ip: \"2001:db8::1\"}", "", 1))
	c := follow(t, dir, "endpointslices", &discoveryv1.EndpointSlice{}, Options{})
	waitFor(t, "two slices", func() bool { return len(c.informer.GetStore().List()) == 2 })
	put(t, dir, "b.yaml", "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: own, labels: {kubernetes.io/service-name: web}}\naddressType: IPv4\n")
	c.becomes("own")
	must(t, os.Remove(filepath.Join(dir, "b.yaml")))
	waitFor(t, "two slices", func() bool { return len(c.informer.GetStore().List()) == 2 })
}

// What changed between New and Run is not missed.
func TestChangeBeforeRun(t *testing.T) {
	dir := tree(t, "a.yaml", configMap("a", "1"))
	s, err := New(dir, nil, Options{Poll: time.Hour, silent: true})
	must(t, err)
	put(t, dir, "a.yaml", configMap("a", "2"))
	rv := format(s.rev)
	w, err := s.ListerWatcher("configmaps").(*listWatch).Watch(metav1.ListOptions{ResourceVersion: rv})
	must(t, err)
	defer w.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { s.Run(ctx) })
	defer group.Wait()
	defer cancel()
	expect(t, w, "MODIFIED a=2")
}

// A reader that is always behind gets its list anew, and ends with the newest.
func TestInformerCatchesUpAfterExpiry(t *testing.T) {
	dir := tree(t, "a.yaml", configMap("a", "1"))
	c := follow(t, dir, "configmaps", &v1.ConfigMap{}, Options{history: 2})
	var b strings.Builder
	var want []string
	for i := range 50 {
		fmt.Fprintf(&b, "---\n%s", configMap(fmt.Sprintf("o%02d", i), "1"))
		want = append(want, fmt.Sprintf("o%02d=1", i))
	}
	put(t, dir, "a.yaml", b.String())
	c.becomes(strings.Join(want, " "))
}
