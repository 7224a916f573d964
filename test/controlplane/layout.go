package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// The names of the scripts in a directory are those of its processes:
// etcd, apiserver-0, apiserver-1, …, controller-manager.
const controllers = "endpointslice-controller,endpoints-controller,endpointslice-mirroring-controller," +
	"serviceaccount-controller,serviceaccount-token-controller,garbage-collector-controller"

// adminToken is the administrator's: the cluster listens on the loopback address only.
const adminToken = "admin-token"

// initDir writes everything that the processes need to dir. The controller
// manager and admin.kubeconfig use the last API server, so that the first can be
// taken away while the cluster goes on.
func initDir(dir string, servers, port int) error {
	if servers < 1 {
		return fmt.Errorf("%d API servers are not enough", servers)
	}
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o700); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager"} {
		if err := os.Symlink(self, filepath.Join(dir, "bin", name)); err != nil {
			return err
		}
	}
	if err := writeCerts(dir, false, -1); err != nil {
		return err
	}
	if err := writeServiceAccountKey(dir); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "tokens.csv"), []byte(adminToken+",admin,admin,system:masters\n"), 0o600); err != nil {
		return err
	}
	ports, err := freePorts(port, servers+2)
	if err != nil {
		return err
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	client, peer := fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	if err := writeScript(dir, "etcd", "etcd", at("etcd-data"), client, peer); err != nil {
		return err
	}
	if err := os.WriteFile(at("etcd.url"), []byte(client+"\n"), 0o600); err != nil {
		return err
	}
	last := ""
	for i := range servers {
		name, p := fmt.Sprintf("apiserver-%d", i), ports[2+i]
		last = fmt.Sprintf("https://127.0.0.1:%d", p)
		if err := os.WriteFile(at(name+".url"), []byte(last+"\n"), 0o600); err != nil {
			return err
		}
		err := writeScript(dir, name, "kube-apiserver", "--etcd-servers="+client, fmt.Sprint("--secure-port=", p), "--bind-address=127.0.0.1",
			"--tls-cert-file="+at(name+".crt"), "--tls-private-key-file="+at(name+".key"), "--cert-dir="+at(name+"-certs"),
			"--service-account-key-file="+at("sa.pub"), "--service-account-signing-key-file="+at("sa.key"),
			"--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=198.51.100.0/24,2001:db8:c::/108",
			"--authorization-mode=RBAC", "--token-auth-file="+at("tokens.csv"), "--endpoint-reconciler-type=none",
			"--disable-admission-plugins=ServiceAccount", // pods run nowhere, and need none of its tokens
			"--etcd-compaction-interval=0",               // history is compacted by the test that wants it
			"--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000")
		if err != nil {
			return err
		}
	}
	if err := os.WriteFile(at("admin.kubeconfig"), []byte(kubeconfigOf(last, at("ca.crt"), adminToken)), 0o600); err != nil {
		return err
	}
	return writeScript(dir, "controller-manager", "kube-controller-manager", "--kubeconfig="+at("admin.kubeconfig"), "--controllers="+controllers,
		"--service-account-private-key-file="+at("sa.key"), "--root-ca-file="+at("ca.crt"), "--leader-elect=false", "--secure-port=0",
		"--kube-api-qps=2000", "--kube-api-burst=4000", "--concurrent-service-endpoint-syncs=10", "--concurrent-endpoint-syncs=10")
}

// writeScript writes a script that becomes one process, so that its pid is the process's.
func writeScript(dir, name, program string, args ...string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "#!/bin/sh\nexec %s", quoted(filepath.Join(dir, "bin", program)))
	for _, a := range args {
		fmt.Fprintf(&b, " \\\n  %s", quoted(a))
	}
	return os.WriteFile(filepath.Join(dir, name), []byte(b.String()+"\n"), 0o700)
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// freePorts finds n ports from first on. They are below the ports that the
// kernel hands out to connections (32768 on Linux), so that one that is free now
// is still free when a server is started anew.
func freePorts(first, n int) ([]int, error) {
	var ports []int
	for p := first; len(ports) < n; p++ {
		if p >= 32768 {
			return nil, fmt.Errorf("there are no %d free ports from %d to 32767", n, first)
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
		if err != nil {
			continue // in use
		}
		l.Close()
		ports = append(ports, p)
	}
	return ports, nil
}
