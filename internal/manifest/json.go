package manifest

import (
	"bytes"
	"encoding/json"
)

// looksJSON tells JSON from YAML in flow style, mostly; what looks like JSON
// and is not is tried as YAML.
func looksJSON(data []byte) bool {
	if len(data) == 0 || data[0] != '{' {
		return false
	}
	rest := bytes.TrimLeft(data[1:], " \t\r\n")
	return len(rest) > 0 && (rest[0] == '"' || rest[0] == '}')
}

// jsonEnd is the offset behind the value at the start of data, found by its
// brackets only: whether it is valid is for the decoder to say.
func jsonEnd(data []byte) int {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth <= 0 {
				return i + 1
			}
		case '"':
			i += stringEnd(data[i:]) - 1
		}
	}
	return len(data)
}

// stringEnd is the length of the JSON string at the start of data.
func stringEnd(data []byte) int {
	for i := 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}

// elements calls yield with the bounds of each element of the valid JSON array
// raw, and with the number of line ends before it.
func elements(raw []byte, yield func(start, end, lines int)) {
	i, lines := bytes.IndexByte(raw, '[')+1, 0
	lines = bytes.Count(raw[:i], []byte("\n"))
	for i < len(raw) {
		switch raw[i] {
		case '\n':
			lines++
			i++
			continue
		case ' ', '\t', '\r', ',':
			i++
			continue
		case ']':
			return
		}
		end := i
		switch raw[i] {
		case '{', '[':
			end += jsonEnd(raw[i:])
		case '"':
			end += stringEnd(raw[i:])
		default:
			for end < len(raw) && bytes.IndexByte([]byte(",] \t\r\n"), raw[end]) < 0 {
				end++
			}
		}
		yield(i, end, lines)
		lines += bytes.Count(raw[i:end], []byte("\n"))
		i = end
	}
}

// jsonOffset is the offset in data of the key or element at path, or of the
// nearest thing around it that is there.
func jsonOffset(data []byte, path []any) int {
	dec := json.NewDecoder(bytes.NewReader(data))
	best := 0
	for _, step := range path {
		t, err := dec.Token()
		if err != nil {
			return best
		}
		var skip json.RawMessage
		switch s := step.(type) {
		case string:
			if t != json.Delim('{') {
				return best
			}
			for found := false; !found; {
				if !dec.More() {
					return best
				}
				key, err := dec.Token()
				if err != nil {
					return best
				}
				if found = key == s; found {
					best = int(dec.InputOffset())
				} else if dec.Decode(&skip) != nil {
					return best
				}
			}
		case int:
			if t != json.Delim('[') {
				return best
			}
			for ; s > 0 && dec.More(); s-- {
				if dec.Decode(&skip) != nil {
					return best
				}
			}
			if !dec.More() {
				return best
			}
			best = int(dec.InputOffset())
			for best < len(data) && bytes.IndexByte([]byte(", \t\r\n"), data[best]) >= 0 {
				best++
			}
		}
	}
	return best
}
