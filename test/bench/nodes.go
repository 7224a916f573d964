package bench

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const region = "eu-central-1"

func nodeName(i int) string { return fmt.Sprintf("worker-%04d.%s.example.org", i, region) }
func zone(i int) string     { return region + string(rune('a'+i%3)) }

func (c *Cluster) node(i int) *v1.Node {
	name := nodeName(i)
	n := &v1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: meta("node", i, "", name, version(c.Size.nodeVersion(i))),
		Spec: v1.NodeSpec{
			PodCIDR: address(podNet, i*256-2) + "/24", PodCIDRs: []string{address(podNet, i*256-2) + "/24"},
			ProviderID: fmt.Sprintf("example:///%s/i-%s", zone(i), suffix(i, 17)),
		},
	}
	n.Labels = map[string]string{
		"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
		v1.LabelHostname: name, v1.LabelTopologyRegion: region, v1.LabelTopologyZone: zone(i),
		v1.LabelInstanceTypeStable: "m7.4xlarge", "beta.kubernetes.io/instance-type": "m7.4xlarge",
		"node-role.kubernetes.io/worker": "", "example.org/pool": fmt.Sprintf("pool-%02d", i%20), "example.org/rack": fmt.Sprintf("r%03d", i/20),
	}
	n.Annotations = map[string]string{
		"node.alpha.kubernetes.io/ttl": "300", "volumes.kubernetes.io/controller-managed-attach-detach": "true",
		"projectcalico.org/IPv4Address": address(nodeNet, i) + "/16", "projectcalico.org/IPv4IPIPTunnelAddr": address(podNet, i*256-1),
		"csi.volume.kubernetes.io/nodeid": fmt.Sprintf(`{"ebs.csi.example.org":"i-%s"}`, suffix(i, 17)),
	}
	n.Status = v1.NodeStatus{
		Capacity: resources("16", "65806336Ki", "110", "209702892Ki"), Allocatable: resources("15890m", "62790656Ki", "110", "188041842434"),
		Addresses:       []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: address(nodeNet, i)}, {Type: v1.NodeHostName, Address: name}},
		DaemonEndpoints: v1.NodeDaemonEndpoints{KubeletEndpoint: v1.DaemonEndpoint{Port: 10250}},
		NodeInfo: v1.NodeSystemInfo{
			MachineID: string(uid("machine", i)), SystemUUID: string(uid("system", i)), BootID: string(uid("boot", i)), KernelVersion: "6.12.41-cloud-amd64",
			OSImage: "Debian GNU/Linux 13 (trixie)", ContainerRuntimeVersion: "containerd://2.1.4", KubeletVersion: "v1.37.2", OperatingSystem: "linux", Architecture: "amd64",
		},
		Conditions: []v1.NodeCondition{
			nodeCondition(v1.NodeNetworkUnavailable, v1.ConditionFalse, "CalicoIsUp", "Calico is running on this node", i),
			nodeCondition(v1.NodeMemoryPressure, v1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available", i),
			nodeCondition(v1.NodeDiskPressure, v1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure", i),
			nodeCondition(v1.NodePIDPressure, v1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available", i),
			nodeCondition(v1.NodeReady, v1.ConditionTrue, "KubeletReady", "kubelet is posting ready status", i),
		},
	}
	for k := range 20 {
		image := fmt.Sprintf("registry.example.org/%s/%s", namespace(i+k), application(i+50*k))
		n.Status.Images = append(n.Status.Images, v1.ContainerImage{
			Names: []string{image + "@sha256:" + digest(i+50*k), fmt.Sprintf("%s:v1.%d.%d", image, k, i%100)}, SizeBytes: int64(48_000_000 + 1_000_003*k),
		})
	}
	n.ManagedFields = []metav1.ManagedFieldsEntry{
		managed("kubelet", "v1", "", n.CreationTimestamp, map[string]any{"metadata": map[string]any{"annotations": n.Annotations, "labels": n.Labels}, "spec": n.Spec}),
		managed("kubelet", "v1", "status", n.CreationTimestamp, map[string]any{"status": map[string]any{
			"allocatable": n.Status.Allocatable, "capacity": n.Status.Capacity, "conditions": n.Status.Conditions, "images": []any{""}, "nodeInfo": n.Status.NodeInfo,
		}}),
	}
	return n
}

func resources(cpu, memory, pods, disk string) v1.ResourceList {
	return v1.ResourceList{
		v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory), v1.ResourcePods: resource.MustParse(pods),
		v1.ResourceEphemeralStorage: resource.MustParse(disk), "hugepages-1Gi": resource.MustParse("0"), "hugepages-2Mi": resource.MustParse("0"),
	}
}

func nodeCondition(t v1.NodeConditionType, s v1.ConditionStatus, reason, message string, i int) v1.NodeCondition {
	return v1.NodeCondition{Type: t, Status: s, Reason: reason, Message: message, LastHeartbeatTime: created(i + 500_000), LastTransitionTime: created(i)}
}

// digest looks like that of an image.
func digest(i int) string {
	const hex = "0123456789abcdef"
	out := make([]byte, 64)
	n := uint64(i+1) * 0x9e3779b97f4a7c15
	for k := range out {
		n ^= n >> 27
		n *= 0x3c79ac492ba7b653
		out[k] = hex[n>>60]
	}
	return string(out)
}
