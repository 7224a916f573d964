package output

import (
	"bytes"
	"errors"
	"io"
)

// chunk is small enough to come from memory that is in use already.
const chunk = 64 << 10

// readLike reads h, of which size bytes are expected. Where they turn out to be
// those of like the answer is like itself: a file of megabytes that is as it
// should be is compared, and not copied.
func readLike(h io.Reader, size int64, like []byte) ([]byte, error) {
	if int64(len(like)) != size {
		return readAll(h, size)
	}
	buf := make([]byte, min(chunk, size+1))
	for at := 0; ; {
		n, err := h.Read(buf)
		end := at + n
		if end > len(like) || !bytes.Equal(buf[:n], like[at:end]) {
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, err
			}
			return readAll(h, size, like[:at], buf[:n])
		}
		at = end
		if errors.Is(err, io.EOF) {
			return like[:at:at], nil
		} else if err != nil {
			return nil, err
		}
	}
}

// readAll reads the rest of h, and returns it with what came before it.
func readAll(h io.Reader, size int64, before ...[]byte) ([]byte, error) {
	var buf bytes.Buffer
	buf.Grow(int(size) + bytes.MinRead)
	for _, b := range before {
		buf.Write(b)
	}
	_, err := buf.ReadFrom(h)
	return buf.Bytes(), err
}
