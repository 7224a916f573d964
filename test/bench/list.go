package bench

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
)

// The fields of a list in protobuf, which every list has in common (the numbers
// in the tags of v1.PodList): a tag is number<<3 | 2, "bytes follow".
const (
	metadataTag = 1<<3 | 2
	itemsTag    = 2<<3 | 2
)

// list answers with the objects from the first-th on, no more than limit; 0
// is all of them. The list is never in memory as a whole: lengths come before
// content, so every object is made twice, once for its size.
func (r *collection) list(w http.ResponseWriter, selector fields.Selector, first, limit int, resourceVersion string) {
	var chosen []int
	meta := metav1.ListMeta{ResourceVersion: resourceVersion}
	for i := first; i < r.n; i++ {
		if !selector.Empty() && !selector.Matches(r.fields(i)) {
			continue
		}
		if limit > 0 && len(chosen) == limit {
			meta.Continue = strconv.Itoa(i)
			break
		}
		chosen = append(chosen, i)
	}
	size := fieldSize(meta.Size())
	for _, i := range chosen {
		size += fieldSize(r.at(i).Size())
	}
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	out := bufio.NewWriterSize(w, 64<<10)
	envelope := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: r.gvk.GroupVersion().String(), Kind: r.gvk.Kind + "List"}}
	_, _ = out.Write(protobufPrefix) // bufio keeps the error for the end
	_, err := envelope.MarshalToWriter(out, size, func(w io.Writer) (int, error) {
		buffer := &runtime.Allocator{}
		written, err := writeField(w, metadataTag, &meta, buffer)
		for _, i := range chosen {
			if err != nil {
				break
			}
			var n int
			n, err = writeField(w, itemsTag, r.at(i), buffer)
			written += n
		}
		return written, err
	})
	if err == nil {
		_ = out.Flush() // the client is gone
	}
}

// protobufPrefix is what tells protobuf from other encodings; the serializer that has it does not give it out.
var protobufPrefix = func() []byte {
	var b bytes.Buffer
	if err := protobuf.Serializer.Encode(&runtime.Unknown{}, &b); err != nil {
		panic(err)
	}
	return b.Bytes()[:4]
}()

// fieldSize is how much a field of n bytes takes with its tag and its length.
func fieldSize(n int) int { return 1 + len(binary.AppendUvarint(nil, uint64(n))) + n }

func writeField(w io.Writer, tag byte, o runtime.ProtobufReverseMarshaller, buffer *runtime.Allocator) (int, error) {
	size := o.Size()
	header := binary.AppendUvarint([]byte{tag}, uint64(size))
	n, err := w.Write(header)
	if err != nil {
		return n, err
	}
	b := buffer.Allocate(uint64(size))
	if _, err := o.MarshalToSizedBuffer(b); err != nil {
		return n, err
	}
	m, err := w.Write(b)
	return n + m, err
}
