// Package kubernetes_test: the folder has no code of its own; this test reads
// its manifests as the API server would, and holds them to their README.
package kubernetes_test

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/lb-render/lb-render/internal/config"
	"github.com/lb-render/lb-render/internal/types"
)

const (
	namespace = "platform-load-balancer"
	account   = "lb-render"
)

// objects reads every manifest; an unknown field is an error, as with kubectl apply.
func objects(t *testing.T) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, file := range []string{"rbac.yaml", "token.yaml", "configmap.yaml"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for doc := range bytes.SplitSeq(data, []byte("\n---\n")) {
			var meta struct {
				metav1.TypeMeta
				metav1.ObjectMeta `json:"metadata"`
			}
			if err := yaml.Unmarshal(doc, &meta); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			into := map[string]any{
				"v1 ServiceAccount": new(corev1.ServiceAccount),
				"v1 Secret":         new(corev1.Secret),
				"v1 ConfigMap":      new(corev1.ConfigMap),
				"rbac.authorization.k8s.io/v1 ClusterRole":        new(rbacv1.ClusterRole),
				"rbac.authorization.k8s.io/v1 ClusterRoleBinding": new(rbacv1.ClusterRoleBinding),
				"rbac.authorization.k8s.io/v1 Role":               new(rbacv1.Role),
				"rbac.authorization.k8s.io/v1 RoleBinding":        new(rbacv1.RoleBinding),
			}[meta.APIVersion+" "+meta.Kind]
			if into == nil {
				t.Fatalf("%s: what is a %s %s for?", file, meta.APIVersion, meta.Kind)
			}
			if err := yaml.UnmarshalStrict(doc, into); err != nil {
				t.Errorf("%s: %s: %v", file, meta.Kind, err)
			}
			clusterWide := strings.HasPrefix(meta.Kind, "Cluster")
			if clusterWide != (meta.Namespace == "") || !clusterWide && meta.Namespace != namespace {
				t.Errorf("%s: the namespace of %s is %q", file, meta.Kind, meta.Namespace)
			}
			if all[meta.Kind] != nil {
				t.Errorf("%s: a second %s", file, meta.Kind)
			}
			all[meta.Kind] = into
		}
	}
	return all
}

// TestRules: what lb-render asks for, and no verb more.
func TestRules(t *testing.T) {
	all := objects(t)
	verbs := []string{"list", "watch"}
	everywhere := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: verbs},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: verbs},
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: verbs},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: verbs}, // of its own, so that it can go
	}
	if got := all["ClusterRole"].(*rbacv1.ClusterRole).Rules; !reflect.DeepEqual(got, everywhere) {
		t.Errorf("cluster role: got %v, want %v", got, everywhere)
	}
	here := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{config.Defaults().ConfigMap.Name}, Verbs: verbs}}
	if got := all["Role"].(*rbacv1.Role).Rules; !reflect.DeepEqual(got, here) {
		t.Errorf("role: got %v, want %v", got, here)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range append(everywhere, here...) {
		if !strings.Contains(string(readme), "| list, watch `"+r.Resources[0]+"` |") {
			t.Errorf("the README does not say what the right on %s is for", r.Resources[0])
		}
	}
}

// TestBindings: the rights reach the account, and nobody else.
func TestBindings(t *testing.T) {
	all := objects(t)
	if sa := all["ServiceAccount"].(*corev1.ServiceAccount); sa.Name != account {
		t.Errorf("the account is %s", sa.Name)
	}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: account, Namespace: namespace}}
	everywhere, here := all["ClusterRoleBinding"].(*rbacv1.ClusterRoleBinding), all["RoleBinding"].(*rbacv1.RoleBinding)
	for _, b := range []struct {
		got      []rbacv1.Subject
		ref      rbacv1.RoleRef
		kind, is string
	}{
		{everywhere.Subjects, everywhere.RoleRef, "ClusterRole", all["ClusterRole"].(*rbacv1.ClusterRole).Name},
		{here.Subjects, here.RoleRef, "Role", all["Role"].(*rbacv1.Role).Name},
	} {
		if want := (rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: b.kind, Name: b.is}); b.ref != want {
			t.Errorf("binding: got %v, want %v", b.ref, want)
		}
		if !reflect.DeepEqual(b.got, subjects) {
			t.Errorf("binding of the %s: got %v, want %v", b.kind, b.got, subjects)
		}
	}
	secret := all["Secret"].(*corev1.Secret)
	if secret.Type != corev1.SecretTypeServiceAccountToken || secret.Annotations[corev1.ServiceAccountNameKey] != account {
		t.Errorf("the secret is no token of the account: %s %v", secret.Type, secret.Annotations)
	}
	if len(secret.Data)+len(secret.StringData) > 0 {
		t.Error("there is something in the secret")
	}
}

// TestKubeconfig: client-go takes it as it is, reads the token from a file (which
// it reads anew) and verifies the server.
func TestKubeconfig(t *testing.T) {
	kubeconfig, err := clientcmd.LoadFromFile("kubeconfig.yaml")
	if err != nil {
		t.Fatal(err)
	}
	context := kubeconfig.Contexts[kubeconfig.CurrentContext]
	if context == nil {
		t.Fatalf("there is no context %q", kubeconfig.CurrentContext)
	}
	cluster, user := kubeconfig.Clusters[context.Cluster], kubeconfig.AuthInfos[context.AuthInfo]
	if cluster == nil || user == nil {
		t.Fatalf("the context leads nowhere: %+v", context)
	}
	if !strings.HasPrefix(cluster.Server, "https://") || !strings.Contains(cluster.Server, "example.org") || cluster.InsecureSkipTLSVerify || cluster.CertificateAuthority == "" {
		t.Errorf("cluster: %+v", cluster)
	}
	if user.TokenFile == "" || user.Token != "" {
		t.Errorf("the token is not in a file: %q", user.TokenFile)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{user.TokenFile, cluster.CertificateAuthority} {
		if filepath.Dir(path) != "/etc/lb-render" || !strings.Contains(string(readme), "> "+path) {
			t.Errorf("the README does not make %s", path)
		}
	}
	manifests, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range manifests {
		if !strings.Contains(string(readme), "| `"+name+"` |") {
			t.Errorf("the README does not say what %s is", name)
		}
	}
}

// TestConfigMap: it is the one that the role names, and every entry of it is valid.
func TestConfigMap(t *testing.T) {
	cm, want := objects(t)["ConfigMap"].(*corev1.ConfigMap), config.Defaults().ConfigMap
	if cm.Name != want.Name || cm.Namespace != want.Namespace || len(cm.Data) != 1 {
		t.Errorf("got %s/%s with %d keys, want the default of the agent's config, %+v", cm.Namespace, cm.Name, len(cm.Data), want)
	}
	doc, err := types.Parse([]byte(cm.Data[want.Key]))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range doc.Problems {
		t.Errorf("%+v", p)
	}
	if len(doc.Config.Config) != 2 || len(doc.Config.Config6) != 1 || len(doc.Config.VIPPool) != 3 {
		t.Errorf("entries are missing: %+v", doc.Config)
	}
	for _, vip := range doc.Config.VIPPool {
		a := netip.MustParseAddr(vip)
		if !netip.MustParsePrefix("192.0.2.0/24").Contains(a) && !netip.MustParsePrefix("2001:db8::/32").Contains(a) {
			t.Errorf("%s is somebody's address", vip)
		}
	}
}
