package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

type approval struct {
	Resolution int64   `json:"resolution"`
	Outcome    int64   `json:"outcome"`
	Activation int64   `json:"activation"`
	Chunks     []int64 `json:"chunks"`
}

type evidence struct {
	Format     string     `json:"format"`
	Statement  string     `json:"statement"`
	Checkpoint string     `json:"checkpoint"`
	Handovers  []string   `json:"handovers"`
	Leaves     []*leaf    `json:"leaves"`
	Approvals  []approval `json:"approvals"`
}

const format = "lazaret/evidence/v1"

func main() {
	v := &verifier{keys: make(map[string]*key)}
	for _, role := range []string{roleLog, roleOperator, roleWitness} {
		flag.Func(role, "public key of the "+role+"; may be repeated", func(vkey string) error { return v.trust(role, vkey) })
	}
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: verifier -log VKEY [-operator VKEY] [-witness VKEY …] FILE")
		flag.PrintDefaults()
	}
	flag.CommandLine.Init(os.Args[0], flag.ContinueOnError) // flag.ExitOnError exits with 2
	if err := flag.CommandLine.Parse(os.Args[1:]); err != nil {
		os.Exit(1)
	}
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(1)
	}
	text, err := os.ReadFile(flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	told, err := v.verify(text)
	switch {
	case err != nil:
		fmt.Printf("FAILED  %v\n", err)
		os.Exit(2)
	case len(v.unknown)+len(v.absent) > 0:
		fmt.Printf("INCOMPLETE  %s", told)
		if len(v.unknown) > 0 {
			fmt.Printf("; signatures that were not checked, by %s", strings.Join(v.unknown, ", "))
		}
		if len(v.absent) > 0 {
			fmt.Printf("; the checkpoint has no cosignature by %s", strings.Join(v.absent, ", "))
		}
		fmt.Println()
		os.Exit(3)
	}
	fmt.Printf("VERIFIED  %s\n", told)
}

// The uses of a key. The user of the verifier gives each key for one or more of them.
const (
	roleLog      = "log"
	roleOperator = "operator"
	roleWitness  = "witness"
)

type key struct {
	algorithm byte
	public    ed25519.PublicKey
	passkey   *passkey // set for a key of algorithm 0xff
	roles     []string
	// replaced is set if another key replaced this one. This key then signs no tree of more than
	// replacedAt leaves.
	replaced   bool
	replacedAt int64
}

type verifier struct {
	keys    map[string]*key // by name+hash
	unknown []string
	absent  []string // given witnesses that did not cosign the checkpoint
	// counters are the highest counters so far, by project and passkey, in the order of approvals.
	counters map[string]uint32
}

// parseKey reads <name>+<hash>+<base64>.
func parseKey(vkey string) (id string, k *key, err error) {
	name, rest, _ := strings.Cut(vkey, "+")
	hash, data, _ := strings.Cut(rest, "+")
	b, err := base64.StdEncoding.DecodeString(data)
	if err != nil || name == "" || len(b) == 0 || b[0] != passkeyAlgorithm && (len(b) != 33 || b[0] != 1 && b[0] != 4) {
		return "", nil, fmt.Errorf("%q is not a key", vkey)
	}
	sum := sha256.Sum256(append([]byte(name+"\n"), b...))
	if hash != hex.EncodeToString(sum[:4]) {
		return "", nil, fmt.Errorf("the hash in %q is not that of the key", vkey)
	}
	if b[0] == passkeyAlgorithm {
		p, err := parsePasskey(b[1:])
		return name + "+" + hash, &key{algorithm: b[0], passkey: p}, err
	}
	return name + "+" + hash, &key{algorithm: b[0], public: b[1:]}, nil
}

func (v *verifier) trust(role, vkey string) error {
	id, k, err := parseKey(vkey)
	if err != nil {
		return err
	}
	if v.keys[id] == nil {
		v.keys[id] = k
	}
	v.keys[id].roles = append(v.keys[id].roles, role)
	return nil
}

// note checks a signed note and returns its text and the keys that signed.
func note(msg string, keys map[string]*key) (text string, by []*key, unknown []string, err error) {
	at := strings.LastIndex(msg, "\n\n")
	if at < 0 || !strings.HasSuffix(msg, "\n") {
		return "", nil, nil, errors.New("it is not a signed note")
	}
	text = msg[:at+1]
	for _, line := range strings.Split(strings.TrimSuffix(msg[at+2:], "\n"), "\n") {
		f := strings.Split(line, " ")
		if len(f) != 3 || f[0] != "—" {
			return "", nil, nil, fmt.Errorf("%q is not a signature line", line)
		}
		sig, err := base64.StdEncoding.Strict().DecodeString(f[2])
		if err != nil || len(sig) < 4 {
			return "", nil, nil, fmt.Errorf("the signature of %s is not base64", f[1])
		}
		id := f[1] + "+" + hex.EncodeToString(sig[:4])
		k := keys[id]
		if k == nil {
			unknown = append(unknown, id)
			continue
		}
		signed, sig := text, sig[4:]
		if k.algorithm == 4 && len(sig) > 8 {
			signed = fmt.Sprintf("cosignature/v1\ntime %d\n%s", binary.BigEndian.Uint64(sig), text)
			sig = sig[8:]
		}
		if k.passkey != nil {
			if err := k.passkey.verify(text, sig); err != nil {
				return "", nil, nil, fmt.Errorf("the assertion of %s: %w", id, err)
			}
		} else if !ed25519.Verify(k.public, []byte(signed), sig) {
			return "", nil, nil, fmt.Errorf("the signature of %s is invalid", id)
		}
		by = append(by, k)
	}
	return text, by, unknown, nil
}

func (v *verifier) note(msg string) (text string, by []*key, err error) {
	text, by, unknown, err := note(msg, v.keys)
	v.unknown = append(v.unknown, unknown...)
	return text, by, err
}

// signed reports whether a key with this role signed.
func signed(by []*key, role string) bool {
	return slices.ContainsFunc(by, func(k *key) bool { return k.algorithm == 1 && slices.Contains(k.roles, role) })
}

// log reports whether a key of the log signed that may sign a tree of this size.
func (v *verifier) log(by []*key, size int64) bool {
	return signed(slices.DeleteFunc(slices.Clone(by), func(k *key) bool { return k.replaced && size > k.replacedAt }),
		roleLog)
}

// handover adds the log's next key, if a trusted key signed the handover.
func (v *verifier) handover(msg, origin string) error {
	text, _, _ := strings.Cut(msg, "\n\n")
	lines := strings.Split(text, "\n")
	if len(lines) != 4 || lines[0] != origin {
		return fmt.Errorf("it has unexpected lines, or is of a log other than %s", origin)
	}
	vkey, ok := strings.CutPrefix(lines[3], "lazaret-next-key ")
	id, next, err := parseKey(vkey)
	if !ok || err != nil || next.algorithm != 1 {
		return errors.Join(errors.New("it names no next key"), err)
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || size < 0 {
		return errors.New("its size is not a number of leaves")
	}
	known := map[string]*key{id: next}
	for id, k := range v.keys {
		if slices.Contains(k.roles, roleLog) {
			known[id] = k
		}
	}
	next = known[id]
	_, by, _, err := note(msg, known)
	if err != nil {
		return err
	}
	old := slices.DeleteFunc(slices.Clone(by), func(k *key) bool { return k == next })
	switch {
	case len(old) == 0:
		return nil // no trusted key signed it
	case !slices.Contains(by, next):
		return fmt.Errorf("%s has not signed it", id)
	}
	for _, k := range old {
		if k.replaced && size >= k.replacedAt {
			return errors.New("the key that signed it had already been replaced at an earlier size")
		}
		k.replaced, k.replacedAt = true, size
	}
	next.roles = append(next.roles, roleLog)
	v.keys[id] = next
	return nil
}

func (v *verifier) verify(b []byte) (told string, err error) {
	if err := strict(json.NewDecoder(bytes.NewReader(b))); err != nil {
		return "", err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	ev := new(evidence)
	if err := d.Decode(ev); err != nil {
		return "", err
	}
	if ev.Format != format {
		return "", fmt.Errorf("the format is %q, this program reads %q", ev.Format, format)
	}
	origin, _, _ := strings.Cut(ev.Checkpoint, "\n")
	for i, h := range ev.Handovers {
		if err := v.handover(h, origin); err != nil {
			return "", fmt.Errorf("handover %d: %w", i, err)
		}
	}
	cp, by, err := v.note(ev.Checkpoint)
	if err != nil {
		return "", fmt.Errorf("checkpoint: %w", err)
	}
	for id, k := range v.keys {
		if slices.Contains(k.roles, roleWitness) && !(k.algorithm == 4 && slices.Contains(by, k)) {
			v.absent = append(v.absent, id)
		}
	}
	slices.Sort(v.absent)
	lines := strings.Split(cp, "\n")
	if len(lines) < 4 {
		return "", errors.New("checkpoint: it has fewer than three lines")
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil {
		return "", fmt.Errorf("checkpoint: %w", err)
	}
	if !v.log(by, size) {
		return "", errors.New("checkpoint: it is signed neither by a given key of the log nor by a key that replaced one")
	}
	root, err := base64.StdEncoding.Strict().DecodeString(lines[2])
	if err != nil || len(root) != 32 {
		return "", errors.New("checkpoint: the root is not a hash")
	}
	byIndex, err := leaves(ev, size, [32]byte(root))
	if err != nil {
		return "", err
	}
	for i, a := range ev.Approvals {
		if i > 0 && a.Outcome <= ev.Approvals[i-1].Outcome {
			return "", errors.New("the approvals are not in order")
		}
		if err := v.approval(&a, byIndex); err != nil {
			return "", fmt.Errorf("approval at leaf %d: %w", a.Outcome, err)
		}
	}
	of, err := v.statement(ev, lines, size)
	payloads := 0
	for _, l := range ev.Leaves {
		if l.Withheld == "" {
			payloads++
		}
	}
	return fmt.Sprintf("%s: %d leaves of the tree of %d that %s signed, %d payloads, %d approvals", of, len(ev.Leaves),
		size, origin, payloads, len(ev.Approvals)), err
}

// strict refuses repeated names, names with characters other than a-z, 0-9 and _, and data after the
// document. encoding/json treats names as equal that differ only in case, or in ſ and s.
func strict(d *json.Decoder) error {
	if err := value(d); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("something follows the document")
	}
	return nil
}

func value(d *json.Decoder) error {
	t, err := d.Token()
	if err != nil || t != json.Delim('{') && t != json.Delim('[') {
		return err
	}
	names := make(map[string]bool)
	for d.More() {
		if t == json.Delim('{') {
			n, err := d.Token()
			if err != nil {
				return err
			}
			name, _ := n.(string)
			if names[name] || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
				return fmt.Errorf("the name %q is repeated, or has characters other than a-z, 0-9 and _", name)
			}
			names[name] = true
		}
		if err := value(d); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// approvedSource is a source that was approved together with a hold.
type approvedSource struct {
	Digest, Session, Expires string
	Actions                  int
}

func (v *verifier) approval(a *approval, leaves map[int64]*leaf) error {
	r, o, act := leaves[a.Resolution], leaves[a.Outcome], leaves[a.Activation]
	var resolution struct {
		Note string `json:"note"`
	}
	var activation struct{ Do, Digest, Note string }
	var outcome struct {
		Resolved *struct {
			Hold, Revision, State, Key string
			Entry                      uint64
			Source                     *approvedSource
		} `json:"resolved"`
	}
	if err := errors.Join(r.body("ingest", &resolution), o.body("arbiter", &outcome),
		act.body("ingest", &activation)); err != nil {
		return err
	}
	res := outcome.Resolved
	if res == nil || r.Type != "resolution" || act.Type != "activation" || act.Project != "_" ||
		o.Project != r.Project || res.Entry != r.Seq ||
		a.Activation >= a.Resolution || a.Resolution >= a.Outcome {
		return errors.New("its leaves are not those of an approval")
	}
	var trust []byte
	for _, i := range a.Chunks {
		var c struct{ Chunk []byte }
		l := leaves[i]
		if err := l.body("ingest", &c); err != nil {
			return err
		}
		if l.Type != "chunk" || l.Project != "_" || i >= a.Activation {
			return fmt.Errorf("leaf %d is not a part of a trust file", i)
		}
		trust = append(trust, c.Chunk...)
	}
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(trust))
	command, by, err := v.note(activation.Note)
	if err != nil {
		return fmt.Errorf("the activation: %w", err)
	}
	if activation.Do != "activate-trust" || activation.Digest != digest || !strings.Contains(command,
		"\ndo: activate-trust\n") || !strings.Contains(command, "\ndigest: "+digest+"\n") {
		return errors.New("the trust file is not the one that was put in force")
	}
	if len(by) > 0 && !signed(by, roleOperator) {
		return errors.New("the activation is signed by a key that is not an operator's")
	}
	if !pins(string(trust), res.Key) {
		return fmt.Errorf("the trust file does not pin %s", res.Key)
	}
	id, k, err := parseKey(res.Key)
	if err != nil {
		return err
	}
	text, signers, unknown, err := note(resolution.Note, map[string]*key{id: k})
	if err != nil || len(signers) != 1 || len(unknown) > 0 {
		return errors.Join(fmt.Errorf("the decision must have one signature, by %s", id), err)
	}
	if k.passkey != nil {
		if err := v.count(r.Project+" "+res.Key, resolution.Note); err != nil {
			return err
		}
	}
	var s struct {
		V, Project, Hold, Revision, Decision string
		Source                               *approvedSource
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	state := map[string]string{"approve": "approved", "reject": "rejected"}[s.Decision]
	if s.V != "lazaret/approval/v1" || s.Project != r.Project || s.Hold != res.Hold || s.Revision != res.Revision ||
		state == "" || state != res.State || (s.Source == nil) != (res.Source == nil) ||
		s.Source != nil && *s.Source != *res.Source {
		return errors.New("the signed statement differs from what the arbiter recorded about it")
	}
	return nil
}

// pins reports whether a trust file has a line with a key.
func pins(trust, key string) bool {
	for line := range strings.Lines(trust) {
		v, ok := strings.CutPrefix(strings.TrimPrefix(strings.TrimSpace(line), "- "), "key: ")
		if ok && strings.Trim(v, `"'`) == key {
			return true
		}
	}
	return false
}

// statement checks the signed statement against the file, and returns the session or proposal that it
// names.
func (v *verifier) statement(ev *evidence, cp []string, size int64) (of string, err error) {
	text, by, err := v.note(ev.Statement)
	if err != nil {
		return "", fmt.Errorf("statement: %w", err)
	}
	if !v.log(by, size) {
		return "", errors.New("statement: it is signed neither by a given key of the log nor by a key that replaced one")
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	names := []string{"of", "project", "origin", "size", "root", "leaves", "withheld", "approvals",
		"approvals not shown", "first", "last", "not covered yet",
		"forgotten in the project", "not held in the project", "gaps in the log", "resets in the log",
		"ledger trimmed up to", "made"}
	if len(lines) != len(names)+1 || lines[0] != format || len(ev.Leaves) == 0 {
		return "", errors.New("statement: it has unexpected lines")
	}
	is := make(map[string]string)
	for i, n := range names {
		value, ok := strings.CutPrefix(lines[i+1], n+": ")
		if !ok {
			return "", fmt.Errorf("statement: line %d is %q, want %s", i+2, lines[i+1], n)
		}
		is[n] = value
	}
	all := sha256.New()
	withheld := []string{}
	for _, l := range ev.Leaves {
		all.Write(l.hash[:])
		if l.Withheld != "" {
			withheld = append(withheld, fmt.Sprintf("%d %s", l.Index, l.Withheld))
		}
		if l.Project != is["project"] && l.Project != "_" {
			return "", fmt.Errorf("leaf %d is of project %s, but the file is about project %s", l.Index, l.Project,
				is["project"])
		}
	}
	if len(withheld) == 0 {
		withheld = append(withheld, "none")
	}
	want := map[string]string{"origin": cp[0], "size": cp[1], "root": cp[2], "leaves": fmt.Sprintf("%d sha256:%x",
		len(ev.Leaves), all.Sum(nil)),
		"withheld": strings.Join(withheld, ", "), "approvals": strconv.Itoa(len(ev.Approvals)),
		"first": ev.Leaves[0].Time.UTC().Format(time.RFC3339Nano),
		"last":  ev.Leaves[len(ev.Leaves)-1].Time.UTC().Format(time.RFC3339Nano)}
	for n, w := range want {
		if is[n] != w {
			return "", fmt.Errorf("statement: %s is %q, and the file has %q", n, is[n], w)
		}
	}
	return is["of"] + " of project " + is["project"], nil
}
