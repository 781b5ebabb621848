package streams

import "encoding/hex"

// HeaderTraceparent has the W3C Trace Context of an event's sender. It is a header and not part of the body, so that
// the same event, sent again within another trace, still counts as a repeat.
const HeaderTraceparent = "traceparent"

// Traceparent returns s if it is a valid W3C traceparent of version 00, and "" otherwise. So an invalid traceparent is
// ignored.
func Traceparent(s string) string {
	if trace, parent := ParseTraceparent(s); trace == nil || parent == nil {
		return ""
	}
	return s
}

// ParseTraceparent returns the trace id and the parent span id of a traceparent. If the traceparent is not valid, both
// are nil.
func ParseTraceparent(s string) (trace, parent []byte) {
	if len(s) != 55 || s[:3] != "00-" || s[35] != '-' || s[52] != '-' {
		return nil, nil
	}
	for i, part := range []string{s[3:35], s[36:52], s[53:]} {
		b, err := hex.DecodeString(part)
		if err != nil || !lower(part) || i < 2 && zero(b) {
			return nil, nil
		}
		switch i {
		case 0:
			trace = b
		case 1:
			parent = b
		}
	}
	return trace, parent
}

func lower(s string) bool {
	for _, c := range []byte(s) {
		if c >= 'A' && c <= 'F' {
			return false
		}
	}
	return true
}

func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
