package bench

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Pods go to one node after the other, so a service's are on as many nodes as it has endpoints.
func (c *Cluster) nodeOf(pod int) int { return pod % c.Size.Nodes }

// podIP is of the pod's node; the first two addresses there are the node's own.
func (c *Cluster) podIP(pod int) string {
	return address(podNet, c.nodeOf(pod)*256+pod/c.Size.Nodes)
}

// deployment of a pod: its namespace and name, and a number for each.
func (c *Cluster) deployment(pod int) (namespaceName, name string, i int) {
	if pod < c.Size.endpoints() {
		i = pod / c.Size.EndpointsPerService
		return namespace(i), application(i), i
	}
	i = (pod - c.Size.endpoints()) / 5 // those that no service selects
	return namespace(i / 2), fmt.Sprintf("worker-%05d", i), c.Size.Services + i
}

func (c *Cluster) podName(pod int) string {
	_, name, i := c.deployment(pod)
	return name + "-" + suffix(i, 10) + "-" + suffix(pod, 5)
}

// podTemplate is a pod of which Pod changes what makes each one its own. A real
// one is not made of shared parts, but whoever decodes it cannot tell.
type podTemplate struct {
	pod v1.Pod
	ip  string // as it is in the managed fields
}

// Pod is the i-th pod, made anew. It shares parts with others: change nothing in it.
func (c *Cluster) Pod(i int) *v1.Pod {
	t := c.worker
	if i < c.Size.endpoints() {
		t = c.pod
	}
	ns, app, d := c.deployment(i)
	p := t.pod // shallow
	replicaSet := app + "-" + suffix(d, 10)
	ip := c.podIP(i)
	p.ObjectMeta = meta("pod", i, ns, c.podName(i), version(c.Size.podVersion(i)))
	p.GenerateName, p.Generation = replicaSet+"-", 1
	p.Labels = map[string]string{"app": app, "pod-template-hash": suffix(d, 10), "app.kubernetes.io/part-of": ns, "example.org/release": "stable"}
	p.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "2026-02-11T09:41:07+01:00", "checksum/config": digest(d)}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: replicaSet, UID: uid("replicaset", d), Controller: new(true), BlockOwnerDeletion: new(true)}}
	p.ManagedFields = []metav1.ManagedFieldsEntry{t.pod.ManagedFields[0], t.pod.ManagedFields[1]}
	p.ManagedFields[1].FieldsV1 = metav1.NewFieldsV1(strings.Replace(t.pod.ManagedFields[1].FieldsV1.GetRawString(), t.ip, ip, 1))

	image := "registry.example.org/" + ns + "/" + app
	p.Spec.NodeName = nodeName(c.nodeOf(i))
	p.Spec.Containers = []v1.Container{t.pod.Spec.Containers[0], t.pod.Spec.Containers[1]}
	p.Spec.Containers[0].Image = image + ":v1.42.7"
	p.Spec.Containers[0].Env = append([]v1.EnvVar{{Name: "APP_NAME", Value: app}}, t.pod.Spec.Containers[0].Env...)

	p.Status.HostIP = address(nodeNet, c.nodeOf(i))
	p.Status.HostIPs = []v1.HostIP{{IP: p.Status.HostIP}}
	p.Status.PodIP = ip
	p.Status.PodIPs = []v1.PodIP{{IP: ip}}
	p.Status.StartTime = &p.CreationTimestamp
	p.Status.ContainerStatuses = []v1.ContainerStatus{t.pod.Status.ContainerStatuses[0], t.pod.Status.ContainerStatuses[1]}
	p.Status.ContainerStatuses[0].Image = image + ":v1.42.7"
	p.Status.ContainerStatuses[0].ImageID = image + "@sha256:" + digest(d)
	p.Status.ContainerStatuses[0].ContainerID = "containerd://" + digest(i)
	p.Status.ContainerStatuses[1].ContainerID = "containerd://" + digest(-i-1)
	return &p
}

func newPodTemplate(kind string) *podTemplate {
	const ip = "192.0.2.1"
	t := &podTemplate{ip: ip, pod: v1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		Spec: v1.PodSpec{
			Volumes:    podVolumes(kind),
			Containers: []v1.Container{appContainer(kind), proxyContainer()},
			// What a deployment does not say has been filled in.
			RestartPolicy: v1.RestartPolicyAlways, TerminationGracePeriodSeconds: new(int64(30)), DNSPolicy: v1.DNSClusterFirst,
			ServiceAccountName: kind, DeprecatedServiceAccount: kind, SchedulerName: v1.DefaultSchedulerName, Priority: new(int32(0)),
			SecurityContext: &v1.PodSecurityContext{RunAsNonRoot: new(true), FSGroup: new(int64(1000))}, EnableServiceLinks: new(false),
			PreemptionPolicy: new(v1.PreemptLowerPriority), ImagePullSecrets: []v1.LocalObjectReference{{Name: "registry"}},
			Tolerations: []v1.Toleration{
				{Key: v1.TaintNodeNotReady, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
				{Key: v1.TaintNodeUnreachable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
			},
			TopologySpreadConstraints: []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.ScheduleAnyway,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"example.org/release": "stable"}}}},
		},
		Status: v1.PodStatus{
			Phase: v1.PodRunning, QOSClass: v1.PodQOSBurstable, PodIP: ip, PodIPs: []v1.PodIP{{IP: ip}}, HostIP: ip, HostIPs: []v1.HostIP{{IP: ip}}, StartTime: new(created(0)),
			ContainerStatuses: []v1.ContainerStatus{containerStatus(kind), containerStatus("proxy")},
		},
	}}
	for _, c := range []v1.PodConditionType{v1.PodReadyToStartContainers, v1.PodInitialized, v1.PodReady, v1.ContainersReady, v1.PodScheduled} {
		t.pod.Status.Conditions = append(t.pod.Status.Conditions, v1.PodCondition{Type: c, Status: v1.ConditionTrue, LastTransitionTime: created(0), ObservedGeneration: 1})
	}
	t.pod.ManagedFields = []metav1.ManagedFieldsEntry{
		managed("kube-controller-manager", "v1", "", created(0), map[string]any{
			"metadata": map[string]any{"annotations": map[string]string{"kubectl.kubernetes.io/restartedAt": "", "checksum/config": ""}, "generateName": "",
				"labels":          map[string]string{"app": "", "pod-template-hash": "", "app.kubernetes.io/part-of": "", "example.org/release": ""},
				"ownerReferences": []any{map[string]any{"uid": uid("replicaset", 0)}}},
			"spec": t.pod.Spec,
		}),
		managed("kubelet", "v1", "status", created(0), map[string]any{"status": map[string]any{
			"conditions": t.pod.Status.Conditions, "containerStatuses": []any{""}, "hostIP": "", "hostIPs": []any{""}, "phase": "", "podIP": "", "podIPs": t.pod.Status.PodIPs, "startTime": "",
		}}),
	}
	_ = t.pod.Size() // a Quantity remembers its text: now, and not in two requests at once
	return t
}

func appContainer(kind string) v1.Container {
	c := v1.Container{
		Name: kind, Args: []string{"--config=/etc/app/config.yaml", "--listen=:8080", "--metrics=:9090"},
		Ports: []v1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: v1.ProtocolTCP}, {Name: "metrics", ContainerPort: 9090, Protocol: v1.ProtocolTCP}},
		EnvFrom: []v1.EnvFromSource{
			{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: kind + "-env"}}},
		},
		Env: []v1.EnvVar{
			{Name: "POD_NAME", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}},
			{Name: "POD_IP", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"}}},
			{Name: "NODE_NAME", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "spec.nodeName"}}},
			{Name: "GOMEMLIMIT", ValueFrom: &v1.EnvVarSource{ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: kind, Resource: "limits.memory", Divisor: resource.MustParse("0")}}},
			{Name: "DATABASE_URL", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: kind + "-database"}, Key: "url"}}},
			{Name: "OTEL_EXPORTER_OTLP_ENDPOINT", Value: "http://collector.observability.svc.cluster.example.org:4317"},
		},
		Resources: v1.ResourceRequirements{
			Limits:   v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")},
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m"), v1.ResourceMemory: resource.MustParse("512Mi")},
		},
		VolumeMounts: []v1.VolumeMount{
			{Name: "config", ReadOnly: true, MountPath: "/etc/app"}, {Name: "tmp", MountPath: "/tmp"}, tokenMount(),
		},
		LivenessProbe:  httpProbe("/healthz", "http", 10),
		ReadinessProbe: httpProbe("/readyz", "http", 5),
		StartupProbe:   httpProbe("/readyz", "http", 2),
		Lifecycle:      &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 10}}},
		SecurityContext: &v1.SecurityContext{
			Capabilities: &v1.Capabilities{Drop: []v1.Capability{"ALL"}}, ReadOnlyRootFilesystem: new(true), AllowPrivilegeEscalation: new(false),
		},
	}
	for k := range 4 {
		c.Env = append(c.Env, v1.EnvVar{Name: fmt.Sprintf("FEATURE_%02d_ENABLED", k), Value: "true"})
	}
	return complete(c)
}

func proxyContainer() v1.Container {
	return complete(v1.Container{
		Name: "proxy", Image: "registry.example.org/mesh/proxy:1.29.3", Args: []string{"proxy", "sidecar", "--domain", "$(POD_NAMESPACE).svc.cluster.example.org", "--log-level=warning"},
		Ports: []v1.ContainerPort{{Name: "http-envoy-prom", ContainerPort: 15090, Protocol: v1.ProtocolTCP}},
		Env: []v1.EnvVar{
			{Name: "POD_NAMESPACE", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}}},
			{Name: "MESH_ID", Value: "cluster.example.org"}, {Name: "CA_ADDR", Value: "mesh-ca.mesh-system.svc:15012"},
		},
		Resources:      v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m"), v1.ResourceMemory: resource.MustParse("128Mi")}},
		VolumeMounts:   []v1.VolumeMount{{Name: "mesh-ca", ReadOnly: true, MountPath: "/var/run/secrets/mesh"}, tokenMount()},
		ReadinessProbe: httpProbe("/healthz/ready", "http-envoy-prom", 15),
	})
}

// complete fills in what the API server does.
func complete(c v1.Container) v1.Container {
	c.TerminationMessagePath, c.TerminationMessagePolicy, c.ImagePullPolicy = v1.TerminationMessagePathDefault, v1.TerminationMessageReadFile, v1.PullIfNotPresent
	return c
}

func httpProbe(path, port string, period int32) *v1.Probe {
	return &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: path, Port: intstr.FromString(port), Scheme: v1.URISchemeHTTP}},
		TimeoutSeconds: 1, PeriodSeconds: period, SuccessThreshold: 1, FailureThreshold: 3}
}

func tokenMount() v1.VolumeMount {
	return v1.VolumeMount{Name: "kube-api-access-x7k2p", ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}
}

func podVolumes(kind string) []v1.Volume {
	return []v1.Volume{
		{Name: "config", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: kind + "-config"}, DefaultMode: new(int32(420))}}},
		{Name: "tmp", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		{Name: "mesh-ca", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "mesh-ca-root-cert"}, DefaultMode: new(int32(420))}}},
		{Name: "kube-api-access-x7k2p", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{DefaultMode: new(int32(420)), Sources: []v1.VolumeProjection{
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{ExpirationSeconds: new(int64(3607)), Path: "token"}},
			{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []v1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
			{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{{Path: "namespace", FieldRef: &v1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}}}}},
		}}}},
	}
}

func containerStatus(name string) v1.ContainerStatus {
	return v1.ContainerStatus{
		Name: name, State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: created(0)}}, Ready: true, Started: new(true),
		Image: "registry.example.org/mesh/proxy:1.29.3", ImageID: "registry.example.org/mesh/proxy@sha256:" + digest(0),
		AllocatedResources: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m"), v1.ResourceMemory: resource.MustParse("128Mi")},
		VolumeMounts: []v1.VolumeMountStatus{{Name: "kube-api-access-x7k2p", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true,
			RecursiveReadOnly: new(v1.RecursiveReadOnlyDisabled)}},
	}
}
