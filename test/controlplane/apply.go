package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// collections are the kinds that apply knows; %s is the namespace.
var collections = map[string]string{
	"Namespace":          "/api/v1/namespaces",
	"Node":               "/api/v1/nodes",
	"ConfigMap":          "/api/v1/namespaces/%s/configmaps",
	"Pod":                "/api/v1/namespaces/%s/pods",
	"Secret":             "/api/v1/namespaces/%s/secrets",
	"Service":            "/api/v1/namespaces/%s/services",
	"ServiceAccount":     "/api/v1/namespaces/%s/serviceaccounts",
	"EndpointSlice":      "/apis/discovery.k8s.io/v1/namespaces/%s/endpointslices",
	"Role":               "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/roles",
	"RoleBinding":        "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/rolebindings",
	"ClusterRole":        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
	"ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}

// api is the cluster of a directory, as its administrator.
type api struct {
	url    string
	client *http.Client
}

// newAPI talks to the last API server of dir.
func newAPI(dir string) (*api, error) {
	urls, err := filepath.Glob(filepath.Join(dir, "apiserver-*.url"))
	if err != nil {
		return nil, err
	}
	if len(urls) == 0 {
		return nil, fmt.Errorf("%s has no API server; make it with: controlplane init %s", dir, dir)
	}
	url, err := os.ReadFile(slices.Max(urls))
	if err != nil {
		return nil, err
	}
	return apiAt(dir, strings.TrimSpace(string(url)))
}

func apiAt(dir, url string) (*api, error) {
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &api{url, &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}}, nil
}

// call sends a request and returns the answer's body; a status of 400 or more is an error.
func (a *api) call(method, path, contentType string, body []byte) ([]byte, error) {
	req, err := http.NewRequest(method, a.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+adminToken)
	req.Header.Set("Content-Type", contentType)
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 400 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	return answer, err
}

// apply puts manifests into the cluster: files, or directories of them. What is
// there becomes as they say; a namespace that is missing is made, and a status is written too.
func (a *api) apply(paths []string) error {
	for _, path := range paths {
		files := []string{path}
		if fi, err := os.Stat(path); err != nil {
			return err
		} else if fi.IsDir() {
			if files, err = filepath.Glob(filepath.Join(path, "*.yaml")); err != nil {
				return err
			}
		}
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			for doc := range strings.SplitSeq(string(data), "\n---\n") {
				if err := a.applyOne(doc); err != nil {
					return fmt.Errorf("%s: %w", f, err)
				}
			}
		}
	}
	return nil
}

func (a *api) applyOne(doc string) error {
	var object struct {
		Kind     string
		Metadata struct{ Namespace, Name string }
		Status   map[string]any
	}
	body, err := yaml.YAMLToJSON([]byte(doc))
	if err == nil {
		err = yaml.Unmarshal(body, &object)
	}
	if err != nil {
		return err
	}
	if object.Kind == "" {
		return nil // comments only
	}
	path, ok := collections[object.Kind]
	if !ok {
		return fmt.Errorf("apply does not know the kind %q", object.Kind)
	}
	if strings.Contains(path, "%s") {
		ns := object.Metadata.Namespace
		if ns == "" {
			ns = "default"
		}
		path = fmt.Sprintf(path, ns)
		if err := a.applyOne("apiVersion: v1\nkind: Namespace\nmetadata: {name: " + ns + "}\n"); err != nil {
			return err
		}
	}
	path += "/" + object.Metadata.Name
	const query = "?fieldManager=controlplane&force=true"
	if _, err := a.call(http.MethodPatch, path+query, "application/apply-patch+yaml", body); err != nil {
		return err
	}
	if len(object.Status) > 0 {
		_, err = a.call(http.MethodPatch, path+"/status"+query, "application/apply-patch+yaml", body)
	}
	return err
}

// kubeconfig is one with a token of a service account, NAMESPACE/NAME, good for a day.
func (a *api) kubeconfig(dir, account string) (string, error) {
	ns, name, ok := strings.Cut(account, "/")
	if !ok {
		return "", fmt.Errorf("%q is not NAMESPACE/NAME", account)
	}
	body, err := a.call(http.MethodPost, "/api/v1/namespaces/"+ns+"/serviceaccounts/"+name+"/token", "application/json",
		[]byte(`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","spec":{"expirationSeconds":86400}}`))
	if err != nil {
		return "", err
	}
	var got struct{ Status struct{ Token string } }
	if err := json.Unmarshal(body, &got); err != nil {
		return "", err
	}
	if got.Status.Token == "" {
		return "", errors.New("the API server gives no token")
	}
	return kubeconfigOf(a.url, filepath.Join(dir, "ca.crt"), got.Status.Token), nil
}

func kubeconfigOf(url, ca, token string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q, certificate-authority: %q}}]\n"+
		"users: [{name: u, user: {token: %q}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n", url, ca, token)
}
