package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	cmNamespace = "platform-load-balancer"
	cmName      = "lb-config"
	account     = "lb-render"
)

var background = context.Background()

func (c *cluster) createNamespace(t testing.TB, name string) {
	t.Helper()
	_, err := c.client.CoreV1().Namespaces().Create(background, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !errors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// config writes one key of the ConfigMap.
func (c *cluster) config(t testing.TB, key, document string) {
	t.Helper()
	c.patchConfig(t, map[string]any{key: document})
}

func (c *cluster) patchConfig(t testing.TB, data map[string]any) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		t.Fatal(err)
	}
	maps := c.client.CoreV1().ConfigMaps(cmNamespace)
	_, err = maps.Patch(background, cmName, types.MergePatchType, patch, metav1.PatchOptions{})
	if errors.IsNotFound(err) {
		if _, err = maps.Create(background, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: cmName}}, metav1.CreateOptions{}); err == nil || errors.IsAlreadyExists(err) {
			_, err = maps.Patch(background, cmName, types.MergePatchType, patch, metav1.PatchOptions{})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// token asks for a token of the shipped ServiceAccount.
func (c *cluster) token(t testing.TB) string {
	t.Helper()
	hour := int64(3600)
	r, err := c.client.CoreV1().ServiceAccounts(cmNamespace).CreateToken(background, account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hour}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Status.Token
}

// node creates a node as its kubelet would, ready.
func (c *cluster) node(t testing.TB, name, ip string, labels map[string]string) {
	t.Helper()
	nodes := c.client.CoreV1().Nodes()
	n, err := nodes.Create(background, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	if errors.IsAlreadyExists(err) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if _, err := nodes.UpdateStatus(background, n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// setNodeReady patches the node's Ready condition.
func (c *cluster) setNodeReady(t *testing.T, name string, status corev1.ConditionStatus) {
	t.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, status)
	if _, err := c.client.CoreV1().Nodes().Patch(background, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) patchNode(t *testing.T, name, patch string) {
	t.Helper()
	if _, err := c.client.CoreV1().Nodes().Patch(background, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// service creates a service that selects the pods of its name.
func (c *cluster) service(t testing.TB, namespace, name string, change func(*corev1.Service), ports ...corev1.ServicePort) {
	t.Helper()
	if len(ports) == 0 {
		ports = []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}}
	}
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: ports}}
	if change != nil {
		change(s)
	}
	if _, err := c.client.CoreV1().Services(namespace).Create(background, s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// pod is what a test knows of one.
type pod struct {
	namespace, app, name, node string
	ips                        []string
}

// run creates the pod and lets it run and be ready, as scheduler and kubelet would.
func (c *cluster) run(p pod) error {
	grace := int64(30)
	_, err := c.client.CoreV1().Pods(p.namespace).Create(background, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.name, Labels: map[string]string{"app": p.app}},
		Spec: corev1.PodSpec{NodeName: p.node, TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{Name: "c", Image: "example.org/app", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 9090}}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return c.setReady(p, true)
}

// setReady patches the pod's status as its kubelet would.
func (c *cluster) setReady(p pod, ready bool) error {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	var ips []corev1.PodIP
	for _, ip := range p.ips {
		ips = append(ips, corev1.PodIP{IP: ip})
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"phase": "Running", "podIP": p.ips[0], "podIPs": ips,
		"conditions": []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}}})
	if err != nil {
		return err
	}
	_, err = c.client.CoreV1().Pods(p.namespace).Patch(background, p.name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// terminate asks for the pod's end; it terminates until it is finished.
func (c *cluster) terminate(t testing.TB, p pod) {
	t.Helper()
	if err := c.client.CoreV1().Pods(p.namespace).Delete(background, p.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// finish removes the pod, as the kubelet does when the last container has ended.
func (c *cluster) finish(t testing.TB, p pod) {
	t.Helper()
	now := int64(0)
	err := c.client.CoreV1().Pods(p.namespace).Delete(background, p.name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	if err != nil && !errors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// inParallel calls do for 0 to n-1, eight at a time, and fails the test if one of them fails.
func inParallel(t testing.TB, n int, do func(i int) error) {
	t.Helper()
	next := make(chan int)
	failed := workers(next, do)
	for i := range n {
		next <- i
	}
	close(next)
	if err := failed(); err != nil {
		t.Fatal(err)
	}
}

// workers call do for what comes on next, which they always take. The returned
// function waits until next is closed and all is done, for the first error.
func workers(next <-chan int, do func(i int) error) (wait func() error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first error
	for range 8 {
		wg.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					mu.Lock()
					first = cmp.Or(first, err)
					mu.Unlock()
				}
			}
		})
	}
	return func() error {
		wg.Wait()
		return first
	}
}

// address is the i-th of 198.18.0.0/15, which is there for tests (RFC 2544).
func address(i int) string {
	return fmt.Sprintf("198.%d.%d.%d", 18+i>>16&1, i>>8&255, i&255)
}

// pods runs n pods of an app on the nodes, with addresses from first on.
func (c *cluster) pods(t *testing.T, namespace, app string, n, first int, nodes ...string) []pod {
	t.Helper()
	all := make([]pod, n)
	inParallel(t, n, func(i int) error {
		all[i] = pod{namespace: namespace, app: app, name: fmt.Sprintf("%s-%d", app, first+i), node: nodes[i%len(nodes)], ips: []string{address(first + i)}}
		return c.run(all[i])
	})
	return all
}

// waitSlices waits until the controller's slices of a service have n ready addresses.
func (c *cluster) waitSlices(t *testing.T, namespace, service string, n int) {
	t.Helper()
	eventually(t, time.Minute, func() error {
		slices, err := c.client.DiscoveryV1().EndpointSlices(namespace).List(background, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + service})
		if err != nil {
			return err
		}
		got := 0
		for _, s := range slices.Items {
			for _, e := range s.Endpoints {
				if e.Conditions.Ready == nil || *e.Conditions.Ready {
					got += len(e.Addresses)
				}
			}
		}
		if got != n {
			return fmt.Errorf("the slices of %s/%s have %d ready addresses, want %d", namespace, service, got, n)
		}
		return nil
	})
}
