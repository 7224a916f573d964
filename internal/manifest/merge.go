package manifest

import "fmt"

// merge joins the objects of all files into one set per resource.
func merge(files []*file) (map[string]map[string]entry, error) {
	all := map[string]map[string]entry{}
	served := map[string]bool{} // services with EndpointSlices of their own
	var errs problems
	add := func(resource string, e entry) {
		t := all[resource]
		if t == nil {
			t = map[string]entry{}
			all[resource] = t
		}
		k := keyOf(e.object)
		if first, twice := t[k]; twice {
			errs.add(fmt.Errorf("%v: %s is already in %v; remove one of them", e.place, describe(e.object), first.place))
			return
		}
		t[k] = e
	}
	for _, f := range files {
		for _, e := range f.entries {
			if e.mirrored != nil {
				continue
			}
			k, _ := kindOf(e.object)
			if svc := serviceOf(e.object); svc != "" {
				served[svc] = true
			}
			add(k.resource, e)
		}
	}
	endpoints := map[string]entry{}
	for _, f := range files {
		for _, e := range f.entries {
			if e.mirrored == nil {
				continue
			}
			k := keyOf(e.object)
			if first, twice := endpoints[k]; twice {
				errs.add(fmt.Errorf("%v: %s is already in %v; remove one of them", e.place, describe(e.object), first.place))
				continue
			}
			endpoints[k] = e
			if served[k] {
				continue
			}
			for _, slice := range e.mirrored {
				add("endpointslices", entry{object: slice, place: e.place})
			}
		}
	}
	return all, errs.err()
}
