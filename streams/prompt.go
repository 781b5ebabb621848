package streams

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// RegisterPrompt is the action that proposes a text as the next version of a prompt. Its arguments are
// RegisterPromptArgs. Even if the policy allows the action, the version is registered only when a person approves it
// with a signature.
const RegisterPrompt = "prompts.register"

// MaxPrompt is the maximum size of the text of a prompt, in bytes.
const MaxPrompt = 64 << 10

// RegisterPromptArgs are the arguments of RegisterPrompt.
type RegisterPromptArgs struct {
	Name   string `json:"name"`
	Digest string `json:"digest"` // of the text
	Text   string `json:"text"`
}

// Check returns an error unless the arguments have a prompt's name, a text, and the digest of that text.
func (a *RegisterPromptArgs) Check() error {
	switch {
	case !ValidID(a.Name):
		return CheckID("name of the prompt", a.Name)
	case a.Text == "" || len(a.Text) > MaxPrompt || !utf8.ValidString(a.Text):
		return fmt.Errorf("the text of prompt %s has %d bytes, but it must have 1 to %d bytes and be UTF-8",
			a.Name, len(a.Text), MaxPrompt)
	case a.Digest != Digest([]byte(a.Text)):
		return fmt.Errorf("the text of prompt %s has digest %s, not %s", a.Name, Digest([]byte(a.Text)), clip(a.Digest))
	}
	return nil
}

// PromptVersion is a text of a prompt that a person approved by a signature.
type PromptVersion struct {
	Version int       `json:"version"` // 1, 2, 3 …
	Digest  string    `json:"digest"`
	By      string    `json:"by"`    // name of the key that signed
	Hold    string    `json:"hold"`  // the hold that the person approved
	Entry   uint64    `json:"entry"` // ledger position of the proposal that has the text
	Time    time.Time `json:"time"`  // of the approval
}

// ApprovedPrompt has the name of a prompt that a person approved, and the digest of the prompt's text.
type ApprovedPrompt struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
}

// ParsePrompt parses Session.Prompt: NAME@VERSION, or NAME for the latest version. For NAME alone, it returns version
// 0.
func ParsePrompt(s string) (name string, version int, err error) {
	name, number, has := strings.Cut(s, "@")
	if err := CheckID("name of the prompt", name); err != nil {
		return "", 0, err
	}
	if !has {
		return name, 0, nil
	}
	if version, err = strconv.Atoi(number); err != nil || version < 1 {
		return "", 0, fmt.Errorf("version %q of prompt %s is not a number from 1", clip(number), name)
	}
	return name, version, nil
}

// validDigest reports whether s has the form that Digest returns: sha256: and 64 hex digits.
func validDigest(s string) bool {
	hex, ok := strings.CutPrefix(s, "sha256:")
	return ok && len(hex) == 64 && strings.Trim(hex, "0123456789abcdef") == ""
}
