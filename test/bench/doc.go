// Package bench measures lb-render at the size it is made for (make bench).
//
// Generate makes a cluster (cluster.go, services.go, nodes.go, pods.go), always
// the same one. A Server (apiserver.go, watch.go, list.go) hands it out over HTTP as
// an API server does: protobuf, lists that are streamed or not, and watches that
// events are pushed into. The benchmarks and tests beside them run the built
// binary against it; LB_RENDER_BIN names the binary, ../../bin/lb-render by default.
//
// A Cluster is immutable, and its objects share parts with each other. Each
// request that a Server answers has a goroutine of net/http, which ends when the
// client goes; what they share, the pushed events, is under a lock.
package bench
