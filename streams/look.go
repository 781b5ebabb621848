package streams

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"lazaret/pkg/beliefs"
)

// MaxLookText is the maximum length in bytes of each string field of a Look.
const MaxLookText = 256

// Look records that a program, such as the console, showed a person texts of a project that are marked as more
// sensitive than internal. A look is not signed, so it is only as trustworthy as the program's credential. It changes
// no state of a stage.
type Look struct {
	By      string              `json:"by"`             // the person's name in the program
	Login   string              `json:"login,omitzero"` // hash of the person's login session
	Page    string              `json:"page"`           // kind of page or command
	Path    string              `json:"path,omitzero"`  // path of the first page of this kind that the person was shown
	Ceiling beliefs.Sensitivity `json:"ceiling"`        // highest sensitivity that the person sees
	// Window is a time in seconds. Within it, further pages of the same kind need no entry of their own.
	Window int `json:"window,omitzero"`
}

// Check returns an error if the look lacks a required field or has a text that cannot be recorded.
func (l *Look) Check() error {
	if l.By == "" || l.Page == "" {
		return fmt.Errorf("the look must name the person (by) and the page")
	}
	if l.Window < 0 {
		return fmt.Errorf("the window of a look is %d seconds, want 0 or more", l.Window)
	}
	return cmp.Or(checkLine("by", l.By), checkLine("login", l.Login), checkLine("page", l.Page), checkLine("path", l.Path))
}

// checkLine returns an error if s is too long or has control characters, because people read this text in the log.
func checkLine(name, s string) error {
	if len(s) > MaxLookText || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Errorf("%s %q is longer than %d bytes or has control characters", name, clip(s), MaxLookText)
	}
	return nil
}
