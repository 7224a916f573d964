package bench

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(v1.AddToScheme(s))
	utilruntime.Must(discoveryv1.AddToScheme(s))
	metav1.AddToGroupVersion(s, v1.SchemeGroupVersion)
	return s
}()

// protobuf is how a real server writes it.
var protobuf = func() runtime.SerializerInfo {
	info, _ := runtime.SerializerInfoForMediaType(serializer.NewCodecFactory(scheme).SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	return info
}()

// events writes watch events: frames of a metav1.WatchEvent, raw, whose object
// is self-describing (WatchServer and watchEncoder in apiserver's endpoints/handlers).
type events struct {
	out    streaming.Encoder
	object runtime.Encoder
	buffer bytes.Buffer
}

func newEvents(w io.Writer) *events {
	allocated := func(e runtime.Encoder) runtime.Encoder { // a buffer for all events, not one for each
		return runtime.NewEncoderWithAllocator(e.(runtime.EncoderWithAllocator), &runtime.Allocator{})
	}
	stream := protobuf.StreamSerializer
	return &events{out: streaming.NewEncoder(stream.Framer.NewFrameWriter(w), allocated(stream.Serializer)), object: allocated(protobuf.Serializer)}
}

func (e *events) write(t watch.EventType, o object) error {
	e.buffer.Reset()
	if err := e.object.Encode(o, &e.buffer); err != nil {
		return err
	}
	return e.out.Encode(&metav1.WatchEvent{Type: string(t), Object: runtime.RawExtension{Raw: e.buffer.Bytes()}})
}

// frame is one event as it is on the wire.
func frame(t watch.EventType, o object) []byte {
	var b bytes.Buffer
	if err := newEvents(&b).write(t, o); err != nil {
		panic(err) // memory takes everything, and the scheme knows the object
	}
	return b.Bytes()
}

// watch sends the initial events, if they are asked for, and what is pushed,
// until the client goes or has what it wanted to wait for.
func (r *collection) watch(w http.ResponseWriter, req *http.Request, selector fields.Selector) {
	q := req.URL.Query()
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
	w.WriteHeader(http.StatusOK)
	flusher := http.NewResponseController(w)
	_ = flusher.Flush() // as a real one: that it is a watch shows before there is an event
	out := bufio.NewWriterSize(w, 64<<10)
	next := 0
	// The first write that fails ends it: the client is gone.
	if q.Get("sendInitialEvents") == "true" {
		e := newEvents(out)
		for i := range r.n {
			if !selector.Empty() && !selector.Matches(r.fields(i)) {
				continue
			}
			if err := e.write(watch.Added, r.at(i)); err != nil {
				return
			}
		}
		done, _, newest := r.since(0)
		if writePushed(out, done, selector) != nil || e.write(watch.Bookmark, r.bookmark(version(newest))) != nil {
			return
		}
		next = len(done)
	} else {
		next = r.after(q.Get("resourceVersion"))
	}
	var over <-chan time.Time
	if seconds, _ := strconv.Atoi(q.Get("timeoutSeconds")); seconds > 0 {
		over = time.After(time.Duration(seconds) * time.Second)
	}
	for {
		more, changed, _ := r.since(next)
		next += len(more)
		if writePushed(out, more, selector) != nil || out.Flush() != nil || flusher.Flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-over:
			return
		case <-req.Context().Done():
			return
		}
	}
}

func writePushed(w io.Writer, all []pushed, selector fields.Selector) error {
	for _, p := range all {
		if !selector.Matches(p.fields) {
			continue
		}
		if _, err := w.Write(p.frame); err != nil {
			return err
		}
	}
	return nil
}
