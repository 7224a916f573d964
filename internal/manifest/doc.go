// Package manifest makes a directory of Kubernetes manifests into list-watches
// that client-go's informers cannot tell from an API server.
//
// The data flows one way:
//
//	directory -> listing     scan.go    which files there are, by name, size, times and inode
//	listing   -> documents   split.go   `---`, concatenated JSON and the items of a `kind: List`
//	documents -> objects     decode.go  typed, with the API server's defaults (defaults.go) and checks (validate.go);
//	                                    v1 Endpoints become EndpointSlices (mirror.go)
//	objects   -> tables      state.go   one per resource, and a bounded history of its events
//	tables    -> informers   listwatch.go, watch.go
//
// Files that have not changed are not read again, so that a reload costs what
// was edited. A directory that cannot be read as a whole (a half-written file, a
// mistake) changes nothing: the last good objects stay, Source.Err says why.
//
// Concurrency: New loads in the caller's goroutine; afterwards only Run writes.
// What is published is never changed, readers get copies of it. A watch is one
// goroutine which pulls from the history: a slow one holds up nobody, and
// when the history has moved on without it, it gets 410 Gone as it would from
// an API server, upon which a reflector lists anew.
package manifest
