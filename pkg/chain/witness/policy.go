package witness

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	fnote "github.com/transparency-dev/formats/note"
	fwitness "github.com/transparency-dev/formats/witness"
	"golang.org/x/mod/sumdb/note"
)

// A Policy lists witnesses and says how many of them must cosign a checkpoint. It implements
// chain.Quorum.
type Policy struct {
	group     fwitness.Group
	Logs      []note.Verifier // may be empty
	Witnesses []Witness
}

// Witness is one witness of a policy.
type Witness struct {
	Name string // name in the policy
	Key  note.Verifier
	URL  string // submission prefix; empty: none
}

// nowhere is used as the URL of a witness without one, because the library requires a URL.
const nowhere = "http://witness.invalid"

// ParsePolicy parses a policy in the format of C2SP tlog-policy:
//
//	log <vkey> [<url>]
//	witness <name> <vkey> [<url>]
//	group <name> any|all|<k> <member>...
//	quorum <name>|none
//
// Witness keys have signature type 4 (Ed25519 cosignatures). A key of type 1 is treated as the same
// key of type 4.
func ParsePolicy(b []byte) (*Policy, error) {
	p := new(Policy)
	var text bytes.Buffer
	quorums := 0
	var used []string
	for n, line := range strings.Split(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		fail := func(format string, args ...any) error {
			return fmt.Errorf("witness policy, line %d: %s", n+1, fmt.Sprintf(format, args...))
		}
		switch f[0] {
		case "log":
			if len(f) < 2 || len(f) > 3 {
				return nil, fail("want log <vkey> [<url>]")
			}
			v, err := note.NewVerifier(f[1])
			if err != nil {
				return nil, fail("the log's key: %v", err)
			}
			p.Logs = append(p.Logs, v)
			continue
		case "witness":
			if len(f) < 3 || len(f) > 4 {
				return nil, fail("want witness <name> <vkey> [<url>]")
			}
			v, err := fnote.NewVerifierForCosignatureV1(f[2])
			if err != nil {
				return nil, fail("the key of witness %q: %v", f[1], err)
			}
			w := Witness{Name: f[1], Key: v}
			if len(f) == 4 {
				w.URL = f[3]
			} else {
				f = append(f, nowhere)
			}
			// The same key under two names would count twice toward the quorum, so refuse it.
			_, key, _ := strings.Cut(f[2], "+")
			_, key, _ = strings.Cut(key, "+") // base64 may contain '+'
			raw, _ := base64.StdEncoding.DecodeString(key)
			if len(raw) < 2 || slices.Contains(used, string(raw[1:])) {
				return nil, fail("the key of witness %q is also the key of another witness", f[1])
			}
			used = append(used, string(raw[1:]))
			p.Witnesses = append(p.Witnesses, w)
		case "group":
			if len(f) < 4 {
				return nil, fail("want group <name> any|all|<k> <member>...")
			}
			if f[2] == "0" {
				return nil, fail("group %q has a threshold of zero", f[1])
			}
			for i, m := range f[3:] {
				if slices.Contains(f[3:3+i], m) {
					return nil, fail("group %q has %q twice", f[1], m)
				}
			}
		case "quorum":
			if quorums++; quorums > 1 {
				return nil, fail("the quorum is defined already")
			}
		}
		fmt.Fprintln(&text, strings.Join(f, " "))
		// Let the library check this line. The library requires a quorum line, so append one.
		if _, err := fwitness.ParsePolicy(append(bytes.Clone(text.Bytes()), "quorum none\n"...)); err != nil {
			return nil, fail("%v", err)
		}
	}
	if quorums == 0 {
		return nil, fmt.Errorf("witness policy: it has no quorum: add a line quorum <name>, or quorum none")
	}
	g, err := fwitness.ParsePolicy(text.Bytes())
	if err != nil {
		return nil, fmt.Errorf("witness policy: %w", err)
	}
	p.group = g
	return p, nil
}

// Satisfied reports whether enough witnesses cosigned a checkpoint.
func (p *Policy) Satisfied(checkpoint []byte) bool { return p.group.Satisfied(checkpoint) }

// Cosigned returns the names of the witnesses that cosigned a checkpoint.
func (p *Policy) Cosigned(checkpoint []byte) []string {
	var out []string
	for _, w := range p.Witnesses {
		if n, err := note.Open(checkpoint, note.VerifierList(w.Key)); err == nil && len(n.Sigs) > 0 {
			out = append(out, w.Name)
		}
	}
	return out
}
