// Package bench measures lb-render at the size it is made for (make bench).
//
// Generate makes a cluster (cluster.go, services.go, nodes.go, pods.go), always
// the same one. A Server (apiserver.go, watch.go, list.go) hands it out over HTTP as
// an API server does: protobuf, lists that are streamed or not, and watches that
// events are pushed into. BenchmarkPeakRSS (rss_test.go) and the tests run the built
// binary against it; LB_RENDER_BIN names the binary, ../../bin/lb-render by default.
// BenchmarkRender (render_test.go) and BenchmarkEvent (event_test.go) run the packages
// themselves, on a source in memory; BenchmarkBuild is in internal/watcher.
// Rounds (rounds.go) is how all of these measure, and table makes a page of them.
//
// A Cluster is immutable, and its objects share parts with each other. Each
// request that a Server answers has a goroutine of net/http, which ends when the
// client goes; what they share, the pushed events, is under a lock.
package bench
