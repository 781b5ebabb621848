package streams

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// The functions of this file read JSON in the forms that clients usually send. They take a third of the codec's time.
// If they fail, the document may be valid all the same; then the codec reads it. If they succeed, the codec would give
// the same result.

const (
	quickDepth = 8  // maximum depth of objects and arrays
	quickNames = 16 // maximum number of members of an object
)

// skipSpace returns the index of the first byte from i on that is not white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// skipString returns the index behind the string that begins at i, or -1. plain is false if the string has escapes.
func skipString(b []byte, i int) (end int, plain bool) {
	if i >= len(b) || b[i] != '"' {
		return -1, false
	}
	from, quote, ascii := i+1, i, true
	plain = true
	for i++; ; {
		if quote < i { // b[quote] is the first quote from i on
			n := bytes.IndexByte(b[i:], '"')
			if n < 0 {
				return -1, false
			}
			quote = i + n
		}
		run := b[i:quote]
		slash := bytes.IndexByte(run, '\\')
		if slash >= 0 {
			run = run[:slash]
		}
		control, other := classes(run)
		if ascii = ascii && !other; control {
			return -1, false
		}
		if slash < 0 {
			if !ascii && !utf8.Valid(b[from:quote]) {
				return -1, false
			}
			return quote + 1, plain
		}
		if i += slash + 2; bytes.IndexByte([]byte(`"\/bfnrt`), b[i-1]) < 0 { // b[quote] is behind the backslash
			return -1, false
		}
		plain = false
	}
}

// classes reports whether b has control characters, and whether it has bytes outside ASCII.
func classes(b []byte) (control, other bool) {
	const spaces, high = 0x2020202020202020, 0x8080808080808080
	if len(b) < 8 {
		for _, c := range b {
			control, other = control || c < ' ', other || c >= utf8.RuneSelf
		}
		return control, other
	}
	x := binary.LittleEndian.Uint64(b[len(b)-8:])
	all, low := x, (x-spaces)&^x // the high bit of a byte is set in low if the byte is less than a space
	for ; len(b) > 8; b = b[8:] {
		x := binary.LittleEndian.Uint64(b)
		all |= x
		low |= (x - spaces) &^ x
	}
	return low&high != 0, all&high != 0
}

// skipValue returns the index behind the value that begins at i, or -1.
func skipValue(b []byte, i, depth int) int {
	if i >= len(b) || depth == 0 {
		return -1
	}
	switch b[i] {
	case '"':
		end, _ := skipString(b, i)
		return end
	case '{':
		return skipObject(b, i, func(_ []byte, at int) int { return skipValue(b, at, depth-1) })
	case '[':
		return skipArray(b, i, func(at int) int { return skipValue(b, at, depth-1) })
	case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		first := i
		for i < len(b) && b[i] >= '0' && b[i] <= '9' {
			i++
		}
		if b[first] == '0' && i > first+1 || i < len(b) && bytes.IndexByte([]byte(".eE"), b[i]) >= 0 {
			return -1
		}
		return i
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if len(b)-i >= len(word) && string(b[i:i+len(word)]) == word {
			return i + len(word)
		}
	}
	return -1
}

// skipObject returns the index behind the object that begins at i, or -1. For each member it calls value with the name
// and the index of the value. value returns the index behind the value, or -1.
func skipObject(b []byte, i int, value func(name []byte, at int) int) int {
	if i >= len(b) || b[i] != '{' {
		return -1
	}
	var names [quickNames][]byte
	if i = skipSpace(b, i+1); i < len(b) && b[i] == '}' {
		return i + 1
	}
	for n := 0; n < len(names); n++ {
		end, plain := skipString(b, i)
		if end < 0 || !plain {
			return -1
		}
		names[n] = b[i+1 : end-1]
		for _, earlier := range names[:n] {
			if bytes.Equal(earlier, names[n]) {
				return -1
			}
		}
		if i = skipSpace(b, end); i >= len(b) || b[i] != ':' {
			return -1
		}
		if i = value(names[n], skipSpace(b, i+1)); i < 0 {
			return -1
		}
		switch i = skipSpace(b, i); {
		case i >= len(b):
			return -1
		case b[i] == '}':
			return i + 1
		case b[i] != ',':
			return -1
		}
		i = skipSpace(b, i+1)
	}
	return -1
}

// skipArray returns the index behind the array that begins at i, or -1. element returns the index behind the element at
// an index, or -1.
func skipArray(b []byte, i int, element func(at int) int) int {
	if i >= len(b) || b[i] != '[' {
		return -1
	}
	if i = skipSpace(b, i+1); i < len(b) && b[i] == ']' {
		return i + 1
	}
	for {
		if i = element(i); i < 0 {
			return -1
		}
		switch i = skipSpace(b, i); {
		case i >= len(b):
			return -1
		case b[i] == ']':
			return i + 1
		case b[i] != ',':
			return -1
		}
		i = skipSpace(b, i+1)
	}
}

// quickBatch is ParseBatch for batches whose elements have only plain strings and JSON data. It returns nil if it
// fails.
func quickBatch(body []byte) []BatchEvent {
	out := make([]BatchEvent, 0, 16)
	end := skipArray(body, skipSpace(body, 0), func(at int) int {
		var version, id, data, contentType []byte
		end := skipObject(body, at, func(name []byte, at int) int {
			end := skipValue(body, at, quickDepth)
			if end < 0 {
				return -1
			}
			switch v := body[at:end:end]; string(name) {
			case "specversion":
				version = v
			case "id":
				id = v
			case "data":
				data = v
			case "datacontenttype":
				contentType = v
			case "source", "type", "time", "subject":
			default:
				return -1
			}
			return end
		})
		if end < 0 || len(out) == MaxBatch || !plainElement(version, id, data, contentType) {
			return -1
		}
		out = append(out, BatchEvent{ID: string(id[1 : len(id)-1]), Data: data})
		return end
	})
	if end < 0 || skipSpace(body, end) != len(body) || len(out) == 0 {
		return nil
	}
	return out
}

// plainElement reports whether the members of an element of a batch give its event without unescaping.
func plainElement(version, id, data, contentType []byte) bool {
	return string(version) == `"1.0"` && len(id) > 2 && id[0] == '"' && !bytes.Contains(id, []byte{'\\'}) &&
		len(data) > 0 && (contentType == nil || string(contentType) == `"application/json"`)
}

// quick decodes an observation that has only members with strings. It returns false if it fails; o is then unchanged.
func (e *Observation) quick(body []byte) bool {
	var o Observation
	end := skipObject(body, skipSpace(body, 0), func(name []byte, at int) int {
		var field *string
		switch string(name) {
		case "id":
			field = &o.ID
		case "session":
			field = &o.Session
		case "user":
			field = &o.User
		case "data_subject":
			field = &o.DataSubject
		case "tool":
			field = &o.Tool
		case "call":
			field = &o.Call
		case "source":
			field = &o.Source
		case "content":
			field = &o.Content
		default:
			return -1
		}
		end, plain := skipString(body, at)
		switch {
		case end < 0:
		case plain:
			*field = string(body[at+1 : end-1])
		default:
			text, err := jsontext.AppendUnquote(make([]byte, 0, end-at), body[at:end])
			if err != nil {
				return -1
			}
			*field = string(text)
		}
		return end
	})
	if end < 0 || skipSpace(body, end) != len(body) {
		return false
	}
	*e = o
	return true
}
