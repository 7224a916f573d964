package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// healLimit is how soon the files must be right after whatever was wrong is right
// again: maxWait (2 s) and 5 s.
const healLimit = 7 * time.Second

// webConfig serves shop/web on one VIP.
func webConfig(namespace string) string {
	return fmt.Sprintf("vipPool: [192.0.2.10]\nconfig: {192.0.2.10: {80: {namespace: %s, service: web, portName: http}}}\nlabels: {example.org/lb: %q}\n", namespace, namespace)
}

// web makes a service of n pods on two nodes, with a config that serves it under key.
func (c *cluster) web(t *testing.T, namespace, key string, n, first int) []pod {
	t.Helper()
	c.createNamespace(t, namespace)
	for i := range 2 {
		c.node(t, fmt.Sprintf("%s-%d", namespace, i), fmt.Sprintf("203.0.113.%d", 1+i), map[string]string{"example.org/lb": namespace})
	}
	c.service(t, namespace, "web", nil)
	pods := c.pods(t, namespace, "web", n, first, namespace+"-0", namespace+"-1")
	c.waitSlices(t, namespace, "web", n)
	c.config(t, key, webConfig(namespace))
	return pods
}

// weighted are the servers that the pods should be.
func weighted(weight int, pods ...pod) []string {
	var out []string
	for _, p := range pods {
		out = append(out, fmt.Sprintf("%s:8080 %d", p.ips[0], weight))
	}
	return out
}

// setRules writes the rules of the shipped role anew.
func (c *cluster) setRules(t *testing.T, clusterWide bool, rules []rbacv1.PolicyRule) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"rules": rules})
	if err != nil {
		t.Fatal(err)
	}
	if clusterWide {
		_, err = c.client.RbacV1().ClusterRoles().Patch(background, account, types.MergePatchType, patch, metav1.PatchOptions{})
	} else {
		_, err = c.client.RbacV1().Roles(cmNamespace).Patch(background, account, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestRights: the shipped rules are enough, each of them is needed, and a
// missing one is named and heals. The agent uses the token of token.yaml, on the
// way that examples/kubernetes/README.md has.
func TestRights(t *testing.T) {
	needControlPlane(t)
	t.Parallel()
	c := newCluster(t, 1)
	pods := c.web(t, "shop", "green", 3, 1)
	c.apply(t, filepath.Join("..", "..", "examples", "kubernetes", "token.yaml"))
	var secret *corev1.Secret
	eventually(t, soon, func() (err error) {
		secret, err = c.client.CoreV1().Secrets(cmNamespace).Get(background, "lb-render-token", metav1.GetOptions{})
		if err == nil && (len(secret.Data["token"]) == 0 || len(secret.Data["ca.crt"]) == 0) {
			err = fmt.Errorf("the secret is empty")
		}
		return err
	})
	p := newProxy(t, c.server(t, 0))
	a := c.newAgent(t, settings{server: p.address, key: "green"})
	a.write(t, "token", string(secret.Data["token"]))
	a.write(t, "ca.crt", string(secret.Data["ca.crt"]))

	// The account may not do more than it needs.
	everywhere, err := c.client.RbacV1().ClusterRoles().Get(background, account, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	here, err := c.client.RbacV1().Roles(cmNamespace).Get(background, account, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(here.Rules) != 1 || len(here.Rules[0].ResourceNames) != 1 || here.Rules[0].ResourceNames[0] != cmName {
		t.Fatalf("the right on ConfigMaps is not limited to one: %v", here.Rules)
	}

	type rule struct {
		resource    string
		clusterWide bool
		without     []rbacv1.PolicyRule
	}
	var rules []rule
	for i, r := range everywhere.Rules {
		without := append(append([]rbacv1.PolicyRule{}, everywhere.Rules[:i]...), everywhere.Rules[i+1:]...)
		rules = append(rules, rule{r.Resources[0], true, without})
	}
	rules = append(rules, rule{"configmaps", false, nil})
	if len(rules) != 5 {
		t.Fatalf("there are %d rules", len(rules))
	}
	giveBack := func(r rule) {
		if r.clusterWide {
			c.setRules(t, true, everywhere.Rules)
		} else {
			c.setRules(t, false, here.Rules)
		}
	}

	// At the start: nothing is written for want of any one of them.
	c.setRules(t, false, nil)
	a.start(t)
	t.Cleanup(func() {
		if code := a.stop(syscallTERM); code != 0 {
			t.Errorf("TERM: exit code %d", code)
		}
	})
	eventually(t, soon, func() error { return a.isRed("configmaps", "forbidden", "grant list and watch on configmaps") })
	if got := a.live(haproxy); got != "" {
		t.Errorf("something was written without the ConfigMap:\n%s", got)
	}
	c.setRules(t, false, here.Rules)
	took := eventually(t, soon, func() error { return a.serves(weighted(1, pods...)...) })
	eventually(t, soon, a.isReady)
	figure(t, "right on configmaps given after the start: served after %s", took.Round(time.Millisecond))

	for i, r := range rules {
		// Authorization is looked at when a watch begins; one that is there goes on.
		c.setRules(t, r.clusterWide, r.without)
		p.cutUntil(t, 20*time.Second, func() error {
			return a.isRed(r.resource, "forbidden", "grant list and watch on "+r.resource, "examples/kubernetes")
		})
		if code, _ := a.status(t); code != 1 {
			t.Errorf("%s: status exits with %d", r.resource, code)
		}
		for other := range rules {
			if rules[other].resource != r.resource && a.isRed(rules[other].resource+" is forbidden") == nil {
				t.Errorf("without %s, %s is blamed too", r.resource, rules[other].resource)
			}
		}
		if _, stderr, code := a.cli("check"); code != 1 || !strings.Contains(stderr, "grant list and watch on "+r.resource) {
			t.Errorf("without %s, check exits with %d: %s", r.resource, code, stderr)
		}
		if err := a.serves(weighted(1, pods...)...); err != nil {
			t.Errorf("without %s: %v", r.resource, err)
		}
		giveBack(r)
		took := eventually(t, soon, a.isReady)
		figure(t, "right on %s taken and given back: /readyz green after %s", r.resource, took.Round(time.Millisecond))
		// And it sees what is new.
		pods = append(pods, c.pods(t, "shop", "web", 1, 100+i, "shop-0")...)
		eventually(t, soon, func() error { return a.serves(weighted(1, pods...)...) })
	}
	if n := a.metric(`rdei_lb_kube_connect_err_count{endpoint="configmaps",lb="lb-render",seczone="green"}`); !(n > 0) {
		t.Error("the failures were not counted")
	}
	a.inOrder(t)
}
