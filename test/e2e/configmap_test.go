package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestConfigMap: broken, mended, deleted, made again, its key renamed. The last
// valid document stays in force and endpoints go on flowing, also across a restart.
func TestConfigMap(t *testing.T) {
	needControlPlane(t)
	t.Parallel()
	c := newCluster(t, 1)
	pods := c.web(t, "shop", "green", 2, 1)
	a := c.startAgent(t, settings{key: "green"})
	eventually(t, soon, func() error { return a.serves(weighted(1, pods...)...) })
	a.waitReady(t)
	next := 10
	flows := func(what string) {
		t.Helper()
		next++
		pods = append(pods, c.pods(t, "shop", "web", 1, next, "shop-0")...)
		took := eventually(t, soon, func() error { return a.serves(weighted(1, pods...)...) })
		figure(t, "ConfigMap %s: a new pod is served after %s", what, took.Round(time.Millisecond))
	}
	invalid := func(words ...string) {
		t.Helper()
		eventually(t, soon, func() error { return a.isRed(words...) })
		if v := a.metric("lb_render_config_valid"); v != 0 {
			t.Errorf("lb_render_config_valid is %v", v)
		}
		if code, _ := a.status(t); code != 1 {
			t.Errorf("status: exit code %d", code)
		}
	}
	valid := func() {
		t.Helper()
		eventually(t, soon, a.isReady)
		if v := a.metric("lb_render_config_valid"); v != 1 {
			t.Errorf("lb_render_config_valid is %v", v)
		}
	}

	c.config(t, "green", "config: {192.0.2.10: {80: {")
	invalid("green")
	flows("broken")
	a.stop(syscallTERM)
	a.start(t)
	invalid("green")
	flows("broken, after a restart")

	c.config(t, "green", webConfig("shop"))
	valid()

	// One entry is bad, the other new: the good one takes effect, the bad one stays as it was.
	c.config(t, "green", "config: {192.0.2.10: {80: {namespace: shop, service: web, portName: \"not a port name!\"}, 8080: {namespace: shop, service: web, portName: http}}}\n")
	eventually(t, soon, func() error {
		return a.serves(append(weighted(1, pods...), weighted(1, pods...)...)...)
	})
	if got := a.metric(`lb_render_problems{reason="invalid"}`); got != 1 {
		t.Errorf(`lb_render_problems{reason="invalid"} is %v`, got)
	}
	c.config(t, "green", webConfig("shop"))
	eventually(t, soon, func() error { return a.serves(weighted(1, pods...)...) })

	maps := c.client.CoreV1().ConfigMaps(cmNamespace)
	if err := maps.Delete(background, cmName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	invalid(cmNamespace+"/"+cmName, "does not exist")
	flows("deleted")
	a.stop(syscallTERM)
	a.start(t)
	invalid(cmNamespace + "/" + cmName)
	flows("deleted, after a restart")
	c.config(t, "green", webConfig("shop"))
	valid()
	flows("made again")

	// The key is renamed; the agent's config follows.
	patch := fmt.Sprintf(`[{"op":"add","path":"/data/blue","value":%q},{"op":"remove","path":"/data/green"}]`, webConfig("shop"))
	if _, err := maps.Patch(background, cmName, types.JSONPatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	invalid(`has no key "green"`)
	flows("without its key")
	config, err := os.ReadFile(filepath.Join(a.dir, "lb-render.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	a.write(t, "lb-render.yaml", strings.Replace(string(config), "key: green", "key: blue", 1))
	valid()
	flows("under its new key")
	a.inOrder(t)
}
