package keys

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"golang.org/x/mod/sumdb/note"

	"lazaret/pkg/files"
	"lazaret/pkg/internal/strictyaml"
)

// TrustFile is the usual name of a trust file.
const TrustFile = "trust.yaml"

// maxTrust is the maximum size of a trust file, in bytes.
const maxTrust = 1 << 20

// Role is what a pinned key may sign. No role includes another one.
type Role string

// The roles.
const (
	// RoleOperator activates rule sets, policies and trust files. It also signs statements about data, such as legal
	// holds and erasures, see streams.Custody.
	RoleOperator Role = "operator"
	RoleApprover Role = "approver" // resolves holds
	RoleAuditor  Role = "auditor"  // signs checkpoints, and orders to open an incident or to disclose beliefs
	RoleProbe    Role = "probe"    // signs results of planned tests
)

// ApproverPrefix begins the name of a narrower approver role, such as approver:finance. A policy may require such a
// role. A key with the narrower role does not have the role approver, and a key with the role approver does not have
// the narrower role.
const ApproverPrefix = RoleApprover + ":"

// Valid reports whether a key may be pinned for r.
func (r Role) Valid() bool { return slices.Contains(Roles, r) || r.Approver() }

// Approver reports whether r resolves holds.
func (r Role) Approver() bool {
	if r == RoleApprover {
		return true
	}
	name, ok := strings.CutPrefix(string(r), string(ApproverPrefix))
	return ok && plainName(name)
}

// plainName reports whether s may be a part of a NATS subject.
func plainName(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

// Roles lists every role except the narrower approver roles.
var Roles = []Role{RoleOperator, RoleApprover, RoleAuditor, RoleProbe}

// Pin is a trusted key with its roles.
type Pin struct {
	Key   string `yaml:"key" json:"key"` // note verifier key, or passkey (see Passkey)
	Roles []Role `yaml:"roles" json:"roles"`
	// Agent is set if an agent holds the key. It names the agent as project/agent. Such a key cannot resolve a hold of
	// that agent.
	Agent   string `yaml:"agent,omitempty" json:"agent,omitempty"`
	Comment string `yaml:"comment,omitempty" json:"comment,omitempty"`
	// ReplacedAt is the number of leaves that the audit log had when another key replaced this one.
	// A checkpoint of a larger tree that only this key signed is not valid. ReplacedAt is nil if
	// the key was not replaced.
	ReplacedAt *int64 `yaml:"replaced_at,omitempty" json:"replaced_at,omitempty"`
}

// Has reports whether the key is pinned for a role.
func (p *Pin) Has(r Role) bool { return slices.Contains(p.Roles, r) }

// Trust is the set of pinned keys. The zero value trusts no key. Several goroutines may read it at the same time as
// long as no goroutine calls Add or Replaced.
type Trust struct {
	pins []Pin
	keys map[nameHash]pinned
}

type nameHash struct {
	name string
	hash uint32
}

type pinned struct {
	verifier note.Verifier
	roles    []Role
	pin      int // index in Trust.pins
}

// trustHead is the comment at the start of a trust file.
const trustHead = `# Public keys that Lazaret obeys, and the roles it obeys them in:
# operator, approver, auditor, probe, and approver:NAME for policies that ask for
# a narrower one. Approvers count once an operator has put this file in force:
# lazaret key activate. Whoever can write this file decides whom
# Lazaret believes; keep it owned by the operator, mode 0600.
`

// LoadTrust reads a trust file. It returns ErrOpenMode for a file that users other than its owner
// may write.
func LoadTrust(path string) (*Trust, error) {
	b, err := readGuarded(path, 0o022, "chmod go-w", maxTrust)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading trust file: %w: pin a public key in it first, see lazaret key gen", err)
	}
	if err != nil {
		return nil, fmt.Errorf("reading trust file: %w", err)
	}
	return ParseTrust(path, b)
}

// ParseTrust parses the text of a trust file: a list of pins. Unknown fields are errors. name is
// the file's name in errors.
func ParseTrust(name string, src []byte) (*Trust, error) {
	doc, err := strictyaml.Parse(name, src)
	if err != nil {
		return nil, err
	}
	var pins []Pin
	if err := doc.Decode(&pins); err != nil {
		return nil, err
	}
	t := new(Trust)
	for i, p := range pins {
		if err := t.Add(p); err != nil {
			return nil, doc.Errorf([]any{i}, "pin %d: %w", i+1, err)
		}
	}
	return t, nil
}

// Add pins a key. Two different keys may have the same name, for example after a person got a new key. Add refuses a
// key that is pinned already, and a key with the same name and hash as a pinned one.
func (t *Trust) Add(p Pin) error {
	p.Key = strings.TrimSpace(p.Key)
	if strings.HasPrefix(p.Key, privatePrefix) {
		return fmt.Errorf("%w: this is a private key: pin its public key instead; if others could have read the private "+
			"key where you entered it, make a new key", ErrBadKey)
	}
	v, passkey, err := newVerifier(p.Key)
	if err != nil {
		return fmt.Errorf("%w: %q: %v: want <name>+<hash>+<base64> as lazaret key gen prints it", ErrBadKey, p.Key, err)
	}
	if err := checkName(v.Name()); err != nil {
		return fmt.Errorf("%w: %v", ErrBadKey, err)
	}
	if len(p.Roles) == 0 {
		return fmt.Errorf("key %s has no roles: add one or more of %v", v.Name(), Roles)
	}
	for i, r := range p.Roles {
		if !r.Valid() {
			return fmt.Errorf("key %s: role %q is unknown: use %v, or %sNAME", v.Name(), r, Roles, ApproverPrefix)
		}
		if slices.Contains(p.Roles[:i], r) {
			return fmt.Errorf("key %s: role %q is listed twice", v.Name(), r)
		}
	}
	if passkey && (p.Agent != "" || slices.ContainsFunc(p.Roles, func(r Role) bool { return !r.Approver() })) {
		return fmt.Errorf("key %s is a passkey: it can only have the role approver or approver:NAME, "+
			"and cannot belong to an agent", v.Name())
	}
	if p.Agent != "" {
		project, agent, ok := strings.Cut(p.Agent, "/")
		if !ok || !plainName(project) || !plainName(agent) {
			return fmt.Errorf("key %s: agent is %q, want project/agent", v.Name(), p.Agent)
		}
	}
	if p.ReplacedAt != nil {
		if *p.ReplacedAt < 0 || !slices.Contains(p.Roles, RoleAuditor) {
			return fmt.Errorf("key %s: replaced_at is %d, but it must be a number of leaves, and only a key with the role %s "+
				"may have it", v.Name(), *p.ReplacedAt, RoleAuditor)
		}
		v = replaced{v, *p.ReplacedAt}
	}
	id := nameHash{v.Name(), v.KeyHash()}
	if _, dup := t.keys[id]; dup {
		return fmt.Errorf("key %s+%08x is pinned twice: list all its roles in one pin", id.name, id.hash)
	}
	if t.keys == nil {
		t.keys = make(map[nameHash]pinned)
	}
	p.Roles = slices.Clone(p.Roles)
	t.keys[id] = pinned{v, p.Roles, len(t.pins)}
	t.pins = append(t.pins, p)
	return nil
}

// replaced is the verifier of a key that was replaced. Package chain calls ReplacedAt: a signature of the
// key counts only on a checkpoint of a log with at most that many leaves.
type replaced struct {
	note.Verifier
	at int64
}

// ReplacedAt returns the number of leaves of the log when the key was replaced.
func (r replaced) ReplacedAt() int64 { return r.at }

// Replaced records in the pin of a key that another key replaced it when the log had the given number of leaves. key is
// the name of the replaced key and its hash in hex, as NAME+HASH. Replaced returns true if it changed the pin. It does
// not change the pin in two cases: the key is not pinned for the role auditor, or the pin already has the same number
// or a smaller one.
func (t *Trust) Replaced(key string, leaves int64) bool {
	name, hex, _ := strings.Cut(key, "+")
	hash, err := strconv.ParseUint(hex, 16, 32)
	if err != nil {
		return false
	}
	id := nameHash{name, uint32(hash)}
	p, ok := t.keys[id]
	if !ok || !slices.Contains(p.roles, RoleAuditor) {
		return false
	}
	pin := &t.pins[p.pin]
	if pin.ReplacedAt != nil && *pin.ReplacedAt <= leaves {
		return false
	}
	if r, ok := p.verifier.(replaced); ok {
		p.verifier = r.Verifier
	}
	pin.ReplacedAt, p.verifier = &leaves, replaced{p.verifier, leaves}
	t.keys[id] = p
	return true
}

// Pins returns the pinned keys in the order of the file.
func (t *Trust) Pins() []Pin {
	out := slices.Clone(t.pins)
	for i := range out {
		out[i].Roles = slices.Clone(out[i].Roles)
	}
	return out
}

// Verifiers returns the keys that have a role, for note.Open. note.Open then treats all other keys as unknown. So it
// refuses a note that only such keys signed.
func (t *Trust) Verifiers(role Role) note.Verifiers { return roleVerifiers{t, role} }

type roleVerifiers struct {
	trust *Trust
	role  Role
}

// Verifier implements note.Verifiers.
func (r roleVerifiers) Verifier(name string, hash uint32) (note.Verifier, error) {
	p, ok := r.trust.keys[nameHash{name, hash}]
	if !ok || !slices.Contains(p.roles, r.role) {
		return nil, &note.UnknownVerifierError{Name: name, KeyHash: hash}
	}
	return p.verifier, nil
}

// All returns the keys that are trusted in any role, for note.Open. The caller must then check the roles of the key
// that signed the note, with Find.
func (t *Trust) All() note.Verifiers { return allVerifiers{t} }

type allVerifiers struct{ trust *Trust }

// Verifier implements note.Verifiers.
func (a allVerifiers) Verifier(name string, hash uint32) (note.Verifier, error) {
	p, ok := a.trust.keys[nameHash{name, hash}]
	if !ok {
		return nil, &note.UnknownVerifierError{Name: name, KeyHash: hash}
	}
	return p.verifier, nil
}

// Find returns the pin of the key with this name and hash.
func (t *Trust) Find(name string, hash uint32) (Pin, bool) {
	p, ok := t.keys[nameHash{name, hash}]
	if !ok {
		return Pin{}, false
	}
	pin := t.pins[p.pin]
	pin.Roles = slices.Clone(pin.Roles)
	return pin, true
}

// Marshal returns the text of the trust file. It keeps the Comment fields of the pins. All other comments are lost.
func (t *Trust) Marshal() ([]byte, error) {
	pins := t.pins
	if pins == nil {
		pins = []Pin{}
	}
	b, err := yaml.Marshal(pins)
	if err != nil {
		return nil, fmt.Errorf("writing trust file: %w", err)
	}
	return append([]byte(trustHead), b...), nil
}

// Write replaces the trust file at path with mode 0600. If the machine crashes meanwhile, the file has either the old
// or the new content.
func (t *Trust) Write(path string) (err error) {
	b, err := t.Marshal()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("writing trust file %s: %w", path, err)
		}
	}()
	return files.Write(path, b, 0o600)
}
