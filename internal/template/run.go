package template

import (
	"fmt"
	"strings"
	"text/template"

	"github.com/lb-render/lb-render/internal/types"
)

// maxIncludes bounds how deep includes nest: a template that includes itself
// would otherwise end the process. Helm allows 1,000; nobody meant 100.
const maxIncludes = 100

// run is one execution of a set.
type run struct {
	set       *template.Template
	suffix    string // of the names in set
	ambiguous map[string][]string
	cc        *types.ClusterConfig
	depth     int
}

// includeError is an error from inside of an included template.
type includeError struct {
	name string
	err  error
}

func (e *includeError) Error() string { return fmt.Sprintf("including %q: %v", e.name, e.err) }
func (e *includeError) Unwrap() error { return e.err }

// include returns what a template gives on dot, so that it can go into a pipe.
func (r *run) include(name string, dot any) (string, error) {
	t := r.set.Lookup(name + r.suffix)
	if t == nil {
		if files := r.ambiguous[name]; files != nil {
			return "", fmt.Errorf("template %q is defined in several files (%s); rename all but one", name, strings.Join(files, ", "))
		}
		var names []string
		for _, other := range r.set.Templates() {
			names = append(names, other.Name())
		}
		return "", fmt.Errorf("there is no template %q%s", name, nearest(name, names, "defined are"))
	}
	if r.depth == maxIncludes {
		return "", fmt.Errorf("includes nest more than %d deep; does %q include itself?", maxIncludes, name)
	}
	r.depth++
	defer func() { r.depth-- }()
	var b strings.Builder
	if err := t.Execute(&b, dot); err != nil {
		return "", &includeError{name: name, err: err}
	}
	return b.String(), nil
}

// endpoints returns the endpoints of any service of the cluster, configured or
// not. port is a port's name, its number, or "" for a service with one port;
// where TCP and UDP share a number, TCP's. A service that is not there has no endpoints.
func (r *run) endpoints(namespace, service string, port any) ([]*types.Endpoint, error) {
	if r.cc.Services == nil {
		return nil, fmt.Errorf("the endpoints of other services were not gathered for this render (ClusterConfig.Services is nil)")
	}
	key := namespace + "/" + service
	s := r.cc.Services[key]
	if s == nil || len(s.Ports) == 0 {
		return nil, nil
	}
	want := text(port)
	var names []string
	var found *types.ServicePort
	for i := range s.Ports {
		p := &s.Ports[i]
		names = append(names, fmt.Sprintf("%q (%d/%s)", p.Name, p.Port, p.Protocol))
		match := want == p.Name || p.Port != 0 && want == fmt.Sprint(p.Port) || want == "" && len(s.Ports) == 1
		if match && (found == nil || found.Protocol != "TCP" && p.Protocol == "TCP") {
			found = p
		}
	}
	if found == nil {
		return nil, fmt.Errorf("service %s has no port %q; it has %s", key, want, strings.Join(names, ", "))
	}
	return found.Endpoints, nil
}
