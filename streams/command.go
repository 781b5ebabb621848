package streams

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// Operators' commands are C2SP signed notes that are published to lz.ctl.<partition>. The note's
// text states the command line by line, so that the signer can read what is signed:
//
//	lazaret/command/v1
//	do: activate-rules
//	digest: sha256:9f86…
//	engine: 1
//	id: 20261121T101500Z-rules
//	issued: 2026-11-21T10:15:00Z
//
// With the additional line "first: true", the command has an effect only if no bundle of its kind
// was ever in force. The bundle (a rule set, a policy or a trust file) is published in chunks before
// the command. The signature on the command covers the bundle's digest.

// CommandHeader is the first line of every signed command.
const CommandHeader = "lazaret/command/v1"

// firstLine is the last line of a command that has an effect only if no bundle of its kind was ever in force.
const firstLine = "first: true"

// EngineVersion is the version of the rule and policy languages that this build supports. A bundle that needs a later
// version is refused.
const EngineVersion = 1

// The commands.
const (
	DoActivateRules  = "activate-rules"
	DoActivatePolicy = "activate-policy"
	// DoActivateTrust puts a trust file in force: from the entry of this command on, approvers' keys in the file may
	// resolve holds. The file's keys of operators have no effect, because each process reads the keys of operators from
	// a trust file of its own.
	DoActivateTrust = "activate-trust"
)

// Command is a parsed operator command.
type Command struct {
	Do     string
	Digest string // sha256:<hex> of the bundle
	Engine int
	ID     string
	Issued time.Time
	// First limits the command to the first activation: it has an effect only if no bundle of its kind was ever in
	// force in the partition. Ingest knows that from the ledger.
	First bool
}

// Text returns the text that is signed.
func (c Command) Text() string {
	text := fmt.Sprintf("%s\ndo: %s\ndigest: %s\nengine: %d\nid: %s\nissued: %s\n",
		CommandHeader, c.Do, c.Digest, c.Engine, c.ID, c.Issued.UTC().Format(time.RFC3339))
	if c.First {
		text += firstLine + "\n"
	}
	return text
}

// Sign returns the command as a signed note.
func (c Command) Sign(signers ...note.Signer) ([]byte, error) {
	return note.Sign(&note.Note{Text: c.Text()}, signers...)
}

// OpenCommand verifies a signed command with the pinned keys and parses it. signer is the name of the pinned key that
// signed the command; if several signed it, of the first one. Every error is a *RejectError.
func OpenCommand(msg []byte, pinned note.Verifiers) (c Command, signer string, err error) {
	n, err := note.Open(msg, pinned)
	if err != nil {
		return c, "", rejectf(CodeSignature, "%v: sign with a key that is pinned in the trust file", err)
	}
	if c, err = parseCommand(n.Text); err != nil {
		return c, "", err
	}
	return c, n.Sigs[0].Name, nil
}

func parseCommand(text string) (c Command, err error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if lines[0] != CommandHeader {
		return c, rejectf(CodeCommand, "the first line is %q, want %q", clip(lines[0]), CommandHeader)
	}
	want := []string{"do", "digest", "engine", "id", "issued"}
	if len(lines) == len(want)+2 && lines[len(lines)-1] == firstLine {
		c.First, lines = true, lines[:len(lines)-1]
	}
	if len(lines) != len(want)+1 {
		return c, rejectf(CodeCommand, "the command has %d lines, want %d", len(lines), len(want)+1)
	}
	for i, name := range want {
		v, ok := strings.CutPrefix(lines[i+1], name+": ")
		if !ok {
			return c, rejectf(CodeCommand, "line %d is %q, want %q", i+2, clip(lines[i+1]), name+": …")
		}
		switch name {
		case "do":
			c.Do = v
		case "digest":
			c.Digest = v
		case "engine":
			if _, err := fmt.Sscanf(v, "%d", &c.Engine); err != nil {
				return c, rejectf(CodeCommand, "engine %q is not a number", clip(v))
			}
		case "id":
			c.ID = v
		case "issued":
			if c.Issued, err = time.Parse(time.RFC3339, v); err != nil {
				return c, rejectf(CodeCommand, "issued %q is not an RFC 3339 time", clip(v))
			}
		}
	}
	if c.Do != DoActivateRules && c.Do != DoActivatePolicy && c.Do != DoActivateTrust {
		return c, rejectf(CodeCommand, "unknown command %q", clip(c.Do))
	}
	if c.Engine > EngineVersion || c.Engine < 1 {
		return c, rejectf(CodeCommand, "the bundle needs engine %d, this version has engine %d", c.Engine, EngineVersion)
	}
	if c.Text() != text {
		return c, rejectf(CodeCommand, "the command is not in its canonical form")
	}
	return c, nil
}

// Digest returns the digest of a bundle in the form that commands use.
func Digest(bundle []byte) string { return DigestOf(sha256.Sum256(bundle)) }

// DigestOf returns the digest of the data whose SHA-256 hash is sum, in the form that Digest returns.
func DigestOf(sum [sha256.Size]byte) string { return "sha256:" + hex.EncodeToString(sum[:]) }

// IsDigest reports whether digest is the digest of content.
func IsDigest(digest, content string) bool {
	sum := sha256.Sum256([]byte(content))
	var b [len("sha256:") + 2*sha256.Size]byte
	hex.Encode(b[copy(b[:], "sha256:"):], sum[:])
	return string(b[:]) == digest
}

// Control is a message on lz.ctl.<partition>. It is a chunk of a bundle, a signed command or, if
// Project is set, a statement, order or request about a project.
type Control struct {
	ID     string `json:"id"`
	Digest string `json:"digest,omitzero"` // digest of the whole bundle
	Index  int    `json:"index,omitzero"`
	Count  int    `json:"count,omitzero"`
	Chunk  []byte `json:"chunk,omitzero"`
	Note   string `json:"note,omitzero"` // the signed command or resolution

	Custody string `json:"custody,omitzero"` // a signed statement about a project's data

	Project string `json:"project,omitzero"` // project of the hold or belief
	Hold    string `json:"hold,omitzero"`    // the hold to resolve
	Belief  string `json:"belief,omitzero"`  // the belief that a signed attestation is about
	Order   string `json:"order,omitzero"`   // a signed order, see approval.Order
	Look    *Look  `json:"look,omitzero"`    // a privileged look at the project
	// Silence, if set, keeps alerts of the project out of lists and notifications.
	Silence *Silence `json:"silence,omitzero"`
}

// ControlProject returns the project that a control message names, or "" if it names none. The message's signature is
// not checked.
func ControlProject(body []byte) string {
	var c Control
	if Unmarshal(body, &c) != nil {
		return ""
	}
	if c.Custody != "" {
		_, rest, _ := strings.Cut(c.Custody, "\nproject: ")
		c.Project, _, _ = strings.Cut(rest, "\n")
	}
	if !ValidID(c.Project) || c.Project == SystemProject {
		return ""
	}
	return c.Project
}

// ChunkSize is the size of a bundle's chunks, in bytes.
const ChunkSize = 256 << 10

// MaxChunks is the maximum number of chunks of a bundle. It limits a bundle to 16 MiB.
const MaxChunks = 64

// Controls cuts a bundle into chunks and appends the signed command for the bundle. The caller must publish the result,
// in order, to every partition.
func Controls(bundle, signed []byte) ([]Control, error) {
	digest := Digest(bundle)
	n := (len(bundle) + ChunkSize - 1) / ChunkSize
	if n > MaxChunks {
		return nil, fmt.Errorf("the bundle is %d bytes, at most %d are possible", len(bundle), MaxChunks*ChunkSize)
	}
	var out []Control
	for i := range n {
		part := bundle[i*ChunkSize : min(len(bundle), (i+1)*ChunkSize)]
		out = append(out, Control{ID: fmt.Sprintf("%s-%d", digest[7:23], i), Digest: digest, Index: i, Count: n, Chunk: part})
	}
	return append(out, Control{ID: digest[7:23] + "-note", Digest: digest, Note: string(signed)}), nil
}

// ChunkEntry is the body of the ledger entry for one chunk of a bundle.
type ChunkEntry struct {
	EntryHead
	Digest string `json:"digest"`
	Index  int    `json:"index"`
	Count  int    `json:"count"`
	Chunk  []byte `json:"chunk"`
}

// ActivationEntry is the ledger body of a signed command that ingest accepted. At this entry, each stage verifies the
// note again, assembles the bundle from the preceding chunks in the partition, and puts the bundle into force.
type ActivationEntry struct {
	EntryHead
	Do     string `json:"do"`
	Digest string `json:"digest"`
	Engine int    `json:"engine"`
	Signer string `json:"signer"`
	Note   string `json:"note"`
}
