package streams

import "fmt"

// MaxIDLen is the maximum length of an identifier, in bytes.
const MaxIDLen = 64

// ValidID reports whether s may be a token of a subject: 1 to 64 letters, digits, underscores or hyphens. Other names
// are refused and not escaped, because an escaped name could have two spellings, and NATS permissions would treat them
// as two names.
func ValidID(s string) bool {
	if len(s) == 0 || len(s) > MaxIDLen {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// CheckID returns an error if s is not a valid identifier. what names the field; the error's text begins with it.
func CheckID(what, s string) error {
	if ValidID(s) {
		return nil
	}
	if len(s) > MaxIDLen {
		return fmt.Errorf("%s is %d bytes long, at most %d are allowed", what, len(s), MaxIDLen)
	}
	return fmt.Errorf("%s %q is not an identifier: use 1 to %d of A-Z a-z 0-9 _ -", what, s, MaxIDLen)
}
