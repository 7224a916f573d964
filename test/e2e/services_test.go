package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const syscallTERM = syscall.SIGTERM

// TestRollingUpdate replaces 20 pods as a Deployment does, five at a time. A
// terminating pod ends when it gets no more connections, or after the 30 seconds of
// grace that are the default.
func TestRollingUpdate(t *testing.T) {
	c := sharedCluster(t)
	t.Parallel()
	const ns, n, step = "rolling", 20, 5
	old := c.web(t, ns, ns, n, 1000)
	a := c.startAgent(t, settings{key: ns})
	eventually(t, soon, func() error { return a.serves(weighted(1, old...)...) })

	var mu sync.Mutex
	alive := map[string]bool{}
	for _, p := range old {
		alive[p.ips[0]+":8080"] = true
	}
	// The file is looked at all the time: at every moment a server that gets
	// connections is one that is there.
	looks := 0
	stopLooking := look(t, 2*time.Millisecond, func() error {
		mu.Lock()
		defer mu.Unlock()
		looks++
		for _, s := range servers(a.live(haproxy)) {
			if ip, weight, _ := strings.Cut(s, " "); weight != "0" && alive[ip] {
				return nil
			}
		}
		return fmt.Errorf("only dead pods are served:\n%s", strings.Join(servers(a.live(haproxy)), "\n"))
	})
	var young []pod
	for i := 0; i < n; i += step {
		fresh := c.pods(t, ns, "web", step, 1100+i, ns+"-0", ns+"-1")
		mu.Lock()
		for _, p := range fresh {
			alive[p.ips[0]+":8080"] = true
		}
		mu.Unlock()
		young = append(young, fresh...)
		going := old[i : i+step]
		for _, p := range going {
			c.terminate(t, p)
		}
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end) && !hasAll(servers(a.loaded(haproxy)), weighted(0, going...)); {
			time.Sleep(20 * time.Millisecond)
		}
		for _, p := range going {
			mu.Lock()
			delete(alive, p.ips[0]+":8080")
			mu.Unlock()
			c.finish(t, p)
		}
	}
	took := eventually(t, soon, func() error { return a.serves(weighted(1, young...)...) })
	stopLooking()
	figure(t, "rolling update of %d pods: right %s after the last pod's end; the file was looked at %d times; %d reloads", n, took.Round(time.Millisecond), looks, a.reloadsOf(haproxy))
	if got := a.metric("lb_render_endpoints"); got != n {
		t.Errorf("lb_render_endpoints is %v", got)
	}
	if fresh, stderr, code := a.cli("render", "haproxy/haproxy_cfg"); code != 0 || fresh != a.live(haproxy) {
		t.Errorf("the file is not what a fresh render gives (exit code %d): %s\n%s", code, stderr, fresh)
	}
	// Each of the old ones drained before it was gone.
	drained := map[string]bool{}
	versions, err := filepath.Glob(filepath.Join(a.dir, "versions", haproxy+".*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range versions {
		data, err := os.ReadFile(v)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range servers(string(data)) {
			drained[s] = true
		}
	}
	for _, s := range weighted(0, old...) {
		if !drained[s] {
			t.Errorf("%s never drained", s)
		}
	}
	a.inOrder(t)
}

func hasAll(list, want []string) bool {
	return !slices.ContainsFunc(want, func(s string) bool { return !slices.Contains(list, s) })
}

// TestManyPods: a service of 2,500 pods has more slices than one.
func TestManyPods(t *testing.T) {
	c := sharedCluster(t)
	t.Parallel()
	const ns, n = "many", 2500
	c.createNamespace(t, ns)
	for i := range 10 {
		c.node(t, fmt.Sprintf("many-%d", i), fmt.Sprintf("203.0.113.%d", 100+i), map[string]string{"example.org/lb": ns})
	}
	c.service(t, ns, "web", nil)
	c.config(t, ns, webConfig(ns))
	a := c.startAgent(t, settings{key: ns, pods: "none"})
	nodes := make([]string, 10)
	for i := range nodes {
		nodes[i] = fmt.Sprintf("many-%d", i)
	}
	pods := c.pods(t, ns, "web", n, 10000, nodes...)
	c.waitSlices(t, ns, "web", n)
	took := eventually(t, soon, func() error { return a.serves(weighted(1, pods...)...) })
	slices, err := c.client.DiscoveryV1().EndpointSlices(ns).List(background, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(slices.Items) < 25 {
		t.Errorf("%d slices", len(slices.Items))
	}
	if got := a.metric("lb_render_endpoints"); got != n {
		t.Errorf("lb_render_endpoints is %v", got)
	}
	for i := range 10 {
		if want := fmt.Sprintf("-a -t 192.0.2.10:80 -r 203.0.113.%d:80 -g -w 250 -x 0 -y 0\n", 100+i); !strings.Contains(a.live(ipvs), want) {
			t.Errorf("ipvs.rules lacks %s", want)
		}
	}
	figure(t, "%d pods in %d slices: rendered %s after the last slice; %d reloads while they came", n, len(slices.Items), took.Round(time.Millisecond), a.reloadsOf(haproxy))
	a.inOrder(t)
}

// TestKindsOfServices: dual stack, headless, and ports with a name, a number and neither.
func TestKindsOfServices(t *testing.T) {
	c := sharedCluster(t)
	t.Parallel()
	const ns = "kinds"
	c.createNamespace(t, ns)
	c.node(t, ns, "203.0.113.20", map[string]string{"example.org/lb": ns})
	both := corev1.IPFamilyPolicyRequireDualStack
	c.service(t, ns, "dual", func(s *corev1.Service) { s.Spec.IPFamilyPolicy = &both })
	c.service(t, ns, "headless", func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone })
	c.service(t, ns, "named", nil, corev1.ServicePort{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)},
		corev1.ServicePort{Name: "web", Port: 81, TargetPort: intstr.FromString("web")})
	c.service(t, ns, "unnamed", nil, corev1.ServicePort{Port: 82, TargetPort: intstr.FromInt32(8082)})
	c.service(t, ns, "dns", nil, corev1.ServicePort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP, TargetPort: intstr.FromInt32(5353)},
		corev1.ServicePort{Name: "dns-tcp", Port: 53, TargetPort: intstr.FromInt32(5353)})
	for i, app := range []string{"dual", "headless", "named", "unnamed", "dns"} {
		p := pod{namespace: ns, app: app, name: app, node: ns, ips: []string{address(2000 + i)}}
		if app == "dual" {
			p.ips = append(p.ips, "2001:db8:1::1")
		}
		if err := c.run(p); err != nil {
			t.Fatal(err)
		}
	}
	c.config(t, ns, `
labels: {example.org/lb: kinds} # the cluster has nodes of other tests, too
config:
  192.0.2.20:
    80: {namespace: kinds, service: dual, portName: http}
    81: {namespace: kinds, service: headless, portName: http}
    82: {namespace: kinds, service: named, portName: http}
    83: {namespace: kinds, service: named, portName: web}
    84: {namespace: kinds, service: named, portName: "81"}
    85: {namespace: kinds, service: unnamed}
    86: {namespace: kinds, service: unnamed, portName: "82"}
    53: {namespace: kinds, service: dns, portName: dns}
config6:
  "2001:db8::20":
    80: {namespace: kinds, service: dual, portName: http}
`)
	a := c.startAgent(t, settings{key: ns})
	ip := func(i int) string { return address(2000 + i) }
	eventually(t, soon, func() error {
		return a.serves(ip(0)+":8080 1", "[2001:db8:1::1]:8080 1", ip(1)+":8080 1", ip(2)+":8080 1", ip(2)+":9090 1", ip(2)+":9090 1", ip(3)+":8082 1", ip(3)+":8082 1")
	})
	// HAProxy serves no UDP; IPVS does, from the nodes.
	eventually(t, soon, func() error {
		for _, want := range []string{"-A -u 192.0.2.20:53 -s wrr\n", "-a -u 192.0.2.20:53 -r 203.0.113.20:53 -g -w 1 -x 0 -y 0\n"} {
			if !strings.Contains(a.live(ipvs), want) {
				return fmt.Errorf("ipvs.rules lacks %s:\n%s", want, a.live(ipvs))
			}
		}
		return a.isReady()
	})
	a.inOrder(t)
}

// TestServiceMadeAnew: a service is deleted and made again; its slices go and come.
func TestServiceMadeAnew(t *testing.T) {
	c := sharedCluster(t)
	t.Parallel()
	const ns = "anew"
	pods := c.web(t, ns, ns, 3, 3000)
	c.service(t, ns, "other", nil)
	others := c.pods(t, ns, "other", 1, 3010, ns+"-0")
	c.config(t, ns, "config: {192.0.2.10: {80: {namespace: anew, service: web, portName: http}, 81: {namespace: anew, service: other, portName: http}}}\nlabels: {example.org/lb: anew}\n")
	a := c.startAgent(t, settings{key: ns})
	eventually(t, soon, func() error { return a.serves(weighted(1, append(slices.Clone(pods), others...)...)...) })
	if err := c.client.CoreV1().Services(ns).Delete(background, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	took := eventually(t, soon, func() error { return a.serves(weighted(1, others...)...) })
	if got := a.metric(`lb_render_problems{reason="no such service"}`); got != 1 {
		t.Errorf(`lb_render_problems{reason="no such service"} is %v`, got)
	}
	c.service(t, ns, "web", nil)
	again := eventually(t, soon, func() error { return a.serves(weighted(1, append(slices.Clone(pods), others...)...)...) })
	if got := a.metric(`lb_render_problems{reason="no such service"}`); got != 0 {
		t.Errorf(`lb_render_problems{reason="no such service"} is %v`, got)
	}
	figure(t, "service deleted: out after %s; made again: in after %s", took.Round(time.Millisecond), again.Round(time.Millisecond))
	a.inOrder(t)
}

// TestNodes: cordoned, not ready, without its label, excluded, deleted, as the IPVS file has it.
func TestNodes(t *testing.T) {
	c := sharedCluster(t)
	t.Parallel()
	const ns = "nodes"
	c.createNamespace(t, ns)
	names := []string{"nodes-a", "nodes-b", "nodes-c"}
	make1 := func(i int) {
		c.node(t, names[i], fmt.Sprintf("203.0.113.%d", 31+i), map[string]string{"example.org/lb": ns})
	}
	for i := range names {
		make1(i)
	}
	c.service(t, ns, "web", nil)
	c.pods(t, ns, "web", 6, 4000, names...)
	c.waitSlices(t, ns, "web", 6)
	c.config(t, ns, webConfig(ns))
	stays := c.startAgent(t, settings{key: ns})
	leaves := c.startAgent(t, settings{key: ns, node: "{excludeCordoned: true}"})
	// realServers is nil when the rules have just these nodes, by index.
	realServers := func(a *agent, want ...int) func() error {
		return func() error {
			var got []int
			for i := range names {
				if strings.Contains(a.live(ipvs), fmt.Sprintf("-r 203.0.113.%d:80 ", 31+i)) {
					got = append(got, i)
				}
			}
			if !slices.Equal(got, want) || strings.Count(a.live(ipvs), "\n-a ") != len(want) {
				return fmt.Errorf("real servers %v, want %v:\n%s", got, want, a.live(ipvs))
			}
			return nil
		}
	}
	see := func(what string, inStays, inLeaves []int) {
		t.Helper()
		took := eventually(t, soon, realServers(leaves, inLeaves...))
		eventually(t, soon, realServers(stays, inStays...))
		figure(t, "node %s: seen after %s", what, took.Round(time.Millisecond))
	}
	all, without := []int{0, 1, 2}, []int{0, 2}
	eventually(t, soon, realServers(stays, all...))
	eventually(t, soon, realServers(leaves, all...))

	c.patchNode(t, "nodes-b", `{"spec":{"unschedulable":true}}`)
	see("cordoned (with excludeCordoned)", all, without)
	during(t, time.Second, realServers(stays, all...)) // without it, an autoscaler takes out whole pools
	c.patchNode(t, "nodes-b", `{"spec":{"unschedulable":null}}`)
	see("uncordoned", all, all)

	c.setNodeReady(t, "nodes-b", corev1.ConditionFalse)
	see("NotReady", without, without)
	c.setNodeReady(t, "nodes-b", corev1.ConditionUnknown)
	during(t, time.Second, realServers(stays, without...))
	c.setNodeReady(t, "nodes-b", corev1.ConditionTrue)
	see("ready again", all, all)

	c.patchNode(t, "nodes-b", `{"metadata":{"labels":{"example.org/lb":null}}}`)
	see("without its label", without, without)
	c.patchNode(t, "nodes-b", `{"metadata":{"labels":{"example.org/lb":"nodes"}}}`)
	see("with its label", all, all)

	c.patchNode(t, "nodes-b", `{"metadata":{"labels":{"node.kubernetes.io/exclude-from-external-load-balancers":""}}}`)
	see("excluded", without, without)
	c.patchNode(t, "nodes-b", `{"metadata":{"labels":{"node.kubernetes.io/exclude-from-external-load-balancers":null}}}`)
	see("no longer excluded", all, all)

	if err := c.client.CoreV1().Nodes().Delete(background, "nodes-b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	see("deleted", without, without)
	make1(1)
	eventually(t, soon, func() error {
		if !strings.Contains(stays.live(ipvs), "-r 203.0.113.32:80 -g -w 2 ") {
			return fmt.Errorf("the node is not back with its weight:\n%s", stays.live(ipvs))
		}
		return nil
	})
	for _, a := range []*agent{stays, leaves} {
		a.inOrder(t)
	}
}
