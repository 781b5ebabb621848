package streams

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// A statement is an order of an operator about the data of a project: to forget the data, to put the project under a
// legal hold, which forbids to forget the data, or to end a legal hold. A statement is a C2SP signed note. It is
// published to lz.ctl.<partition> and recorded in the ledger. To set or end (legal-release) a legal hold:
//
//	lazaret/custody/v1
//	do: legal-hold
//	project: acme
//	id: 20261121T101500Z-4f1c
//	issued: 2026-11-21T10:15:00Z
//	reason: case 3
//
// A statement to forget a project names the entries that it covers: the project's entries up to a
// ledger sequence, and the ranges of the ledger that contain them. So nobody can use the statement to
// forget later entries.
//
//	lazaret/custody/v3
//	do: forget
//	project: acme
//	id: 20261121T101500Z-4f1c
//	issued: 2026-11-21T10:15:00Z
//	reason: request 17 of the data protection officer
//	up-to: 4711
//	entries: 12-15,19,4000-4711
//
// Earlier versions signed statements to forget a project with the first line lazaret/custody/v1 and
// without the last two lines. Ingest refuses such a statement now.
//
// A statement can also be about one data subject of a project. To forget a data subject, the
// statement lists the ledger entries that concern it, and names the other data subjects that these
// entries concern too:
//
//	lazaret/custody/v2
//	do: forget
//	project: acme
//	data-subject: p-17
//	id: 20261121T101500Z-4f1c
//	issued: 2026-11-21T10:15:00Z
//	reason: request 18 of the data protection officer
//	others: p-18,p-19
//	entries: 12-15,19

// A statement to expire covers all projects that are under no legal hold. It names a time and a
// ledger sequence. The payloads of entries that are older than both may be destroyed.
//
//	lazaret/custody/v4
//	do: expire
//	project: _
//	id: 20261121T101500Z-4f1c
//	issued: 2026-11-21T10:15:00Z
//	reason: retention of 2160h0m0s
//	before: 2026-08-23T10:15:00Z
//	up-to: 4711

// The first lines of the kinds of statements: about a project, about a data subject, to forget a
// project, to expire.
const (
	CustodyHeader       = "lazaret/custody/v1"
	CustodyPersonHeader = "lazaret/custody/v2"
	CustodyForgetHeader = "lazaret/custody/v3"
	CustodyExpireHeader = "lazaret/custody/v4"
)

// Actions on a project's data.
const (
	DoForget  = "forget"
	DoHold    = "legal-hold"
	DoRelease = "legal-release"
	DoExpire  = "expire"
)

// CustodyValid is how long after its issue a statement is accepted. Without this limit, somebody could send an old
// statement again, and so erase data that is newer than the statement.
const CustodyValid = time.Hour

// MaxOthers is the maximum number of data subjects in Custody.Others. If there are more, Others has the single element
// AllOthers.
const MaxOthers = 1000

// AllOthers is the only element of Custody.Others if the entries may also concern any other data subject of the
// project.
const AllOthers = "*"

// Custody is a parsed statement about a project's data.
type Custody struct {
	Do      string
	Project string
	ID      string // may be used once
	Issued  time.Time
	Reason  string
	// DataSubject is the data subject that the statement is about. If it is empty, the
	// statement is about the whole project.
	DataSubject string
	// Others are the other data subjects that the entries to forget also concern, in ascending order.
	Others []string
	// Entries are the ledger sequences of the entries to forget, in ascending order. Only an order to forget a data
	// subject has them.
	Entries []uint64
	// UpTo is the last ledger sequence that an order to forget a project, or to expire, covers. In an order to forget
	// that an earlier version wrote, it is 0; such an order covers all entries of the project before the order.
	UpTo uint64
	// Before is the end of the time that an order to expire covers. Entries of exactly this time are not covered.
	Before time.Time
	// Ranges are the ranges of the ledger that contain the entries to forget. Only an order to forget a project has
	// ranges. The ranges may also contain entries of other projects, which are not forgotten.
	Ranges []SeqRange
}

// lines returns the names and values of the statement's lines, in the order in which they are written.
func (c *Custody) lines() [][2]string {
	out := [][2]string{{"do", c.Do}, {"project", c.Project}}
	if c.DataSubject != "" {
		out = append(out, [2]string{"data-subject", c.DataSubject})
	}
	out = append(out, [2]string{"id", c.ID}, [2]string{"issued", c.Issued.UTC().Format(time.RFC3339)},
		[2]string{"reason", c.Reason})
	if c.DataSubject != "" {
		out = append(out, [2]string{"others", strings.Join(c.Others, ",")}, [2]string{"entries", FormatSeqs(c.Entries)})
	} else if c.Do == DoExpire {
		out = append(out, [2]string{"before", c.Before.UTC().Format(time.RFC3339)},
			[2]string{"up-to", strconv.FormatUint(c.UpTo, 10)})
	} else if c.UpTo > 0 {
		out = append(out, [2]string{"up-to", strconv.FormatUint(c.UpTo, 10)}, [2]string{"entries", FormatRanges(c.Ranges)})
	}
	return out
}

// Text returns the text that is signed.
func (c Custody) Text() string {
	var b strings.Builder
	switch {
	case c.DataSubject != "":
		b.WriteString(CustodyPersonHeader)
	case c.Do == DoExpire:
		b.WriteString(CustodyExpireHeader)
	case c.UpTo > 0:
		b.WriteString(CustodyForgetHeader)
	default:
		b.WriteString(CustodyHeader)
	}
	for _, l := range c.lines() {
		fmt.Fprintf(&b, "\n%s: %s", l[0], l[1])
	}
	b.WriteByte('\n')
	return b.String()
}

// Sign returns the statement as a signed note.
func (c Custody) Sign(signers ...note.Signer) ([]byte, error) {
	return note.Sign(&note.Note{Text: c.Text()}, signers...)
}

// OpenCustody verifies a statement with the pinned keys and parses it. signer is the name of the pinned key that signed
// the statement. Every error is a *RejectError.
func OpenCustody(msg []byte, pinned note.Verifiers) (c Custody, signer string, err error) {
	n, err := note.Open(msg, pinned)
	if err != nil {
		return c, "", rejectf(CodeSignature, "%v: sign with a key that is pinned in the trust file", err)
	}
	if c, err = parseCustody(n.Text); err != nil {
		return c, "", err
	}
	return c, n.Sigs[0].Name, nil
}

func parseCustody(text string) (c Custody, err error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	want := map[string]int{CustodyHeader: 6, CustodyPersonHeader: 9, CustodyForgetHeader: 8,
		CustodyExpireHeader: 8}[lines[0]]
	if len(lines) != want {
		if want == 0 {
			return c, rejectf(CodeCommand, "the first line is %q, want one of %q, %q, %q and %q", clip(lines[0]),
				CustodyHeader, CustodyPersonHeader, CustodyForgetHeader, CustodyExpireHeader)
		}
		return c, rejectf(CodeCommand, "the statement has %d lines, want %d, because it begins with %q", len(lines), want,
			lines[0])
	}
	switch lines[0] { // lines[0] is the header
	case CustodyPersonHeader:
		c.DataSubject = "_"
	case CustodyForgetHeader:
		c.UpTo = 1
	case CustodyExpireHeader:
		c.Do = DoExpire
	}
	values := make(map[string]string)
	for i, l := range c.lines() {
		v, ok := strings.CutPrefix(lines[i+1], l[0]+": ")
		if !ok {
			return c, rejectf(CodeCommand, "line %d is %q, want %q", i+2, clip(lines[i+1]), l[0]+": …")
		}
		values[l[0]] = v
	}
	c.Do, c.Project, c.ID = values["do"], values["project"], values["id"]
	c.Reason, c.DataSubject = values["reason"], values["data-subject"]
	if c.Issued, err = time.Parse(time.RFC3339, values["issued"]); err != nil {
		return c, rejectf(CodeCommand, "issued %q is not an RFC 3339 time", clip(values["issued"]))
	}
	known := c.Do == DoForget || c.Do == DoHold || c.Do == DoRelease
	if expire := lines[0] == CustodyExpireHeader; expire && c.Do != DoExpire || !expire && !known {
		return c, rejectf(CodeCommand, "unknown statement %q", clip(c.Do))
	}
	if c.Do == DoExpire {
		err = CheckID("id", c.ID)
	} else {
		err = checkPrincipal(c.Project, c.ID)
	}
	if err != nil {
		return c, rejectf(CodeCommand, "%v", err)
	}
	switch lines[0] {
	case CustodyPersonHeader:
		err = c.parsePerson(values["others"], values["entries"])
	case CustodyForgetHeader:
		err = c.parseProject(values["up-to"], values["entries"])
	case CustodyExpireHeader:
		err = c.parseExpire(values["before"], values["up-to"])
	}
	if err != nil {
		return c, rejectf(CodeCommand, "%v", err)
	}
	if c.Text() != text {
		return c, rejectf(CodeCommand, "the statement is not in its canonical form")
	}
	return c, nil
}

// parsePerson reads the lines that only a statement about a data subject has.
func (c *Custody) parsePerson(others, entries string) (err error) {
	if err := CheckID("data-subject", c.DataSubject); err != nil {
		return err
	}
	if others != "" {
		c.Others = strings.Split(others, ",")
	}
	if len(c.Others) > MaxOthers {
		return fmt.Errorf("the line others has %d names, at most %d may be listed: write %s for "+
			"all", len(c.Others), MaxOthers, AllOthers)
	}
	if others != AllOthers {
		for i, o := range c.Others {
			if err := CheckID("others", o); err != nil {
				return err
			}
			if i > 0 && o <= c.Others[i-1] {
				return fmt.Errorf("the names in the line \"others\" must be in ascending order, each once")
			}
		}
	}
	if c.Entries, err = ParseSeqs(entries); err != nil {
		return err
	}
	if forget := c.Do == DoForget; forget == (len(c.Entries) == 0) {
		return fmt.Errorf("an order to forget a data subject must list entries, and no other statement may")
	}
	return nil
}

// parseProject reads the lines that only an order to forget a project has.
func (c *Custody) parseProject(upTo, entries string) (err error) {
	if c.UpTo, err = strconv.ParseUint(upTo, 10, 64); err != nil || c.UpTo == 0 {
		return fmt.Errorf("up-to %q is not a ledger sequence", clip(upTo))
	}
	if c.Do != DoForget {
		return fmt.Errorf("only an order to forget may list entries")
	}
	c.Ranges, err = ParseRanges(entries)
	if n := len(c.Ranges); err == nil && n > 0 && c.Ranges[n-1].To > c.UpTo {
		err = fmt.Errorf("entry %d is listed, but up-to is %d: listed entries must be at most up-to", c.Ranges[n-1].To,
			c.UpTo)
	}
	return err
}

// parseExpire reads the lines that only an order to expire has.
func (c *Custody) parseExpire(before, upTo string) (err error) {
	if c.UpTo, err = strconv.ParseUint(upTo, 10, 64); err != nil || c.UpTo == 0 {
		return fmt.Errorf("up-to %q is not a ledger sequence", clip(upTo))
	}
	if c.Before, err = time.Parse(time.RFC3339, before); err != nil {
		return fmt.Errorf("before %q is not an RFC 3339 time", clip(before))
	}
	if c.Project != SystemProject {
		return fmt.Errorf("an order to expire concerns all projects: its project must be %s, not %q", SystemProject,
			clip(c.Project))
	}
	if c.Before.After(c.Issued) {
		return fmt.Errorf("an order to expire must not have a time in before that is later than issued, but before is %s "+
			"and issued is %s", before, c.Issued.Format(time.RFC3339))
	}
	return nil
}

// Ordered returns the statement in the body of a CustodyEntry, or nil if the statement cannot be read. It does not
// check the signature, because ingest checked it before it wrote the entry.
func Ordered(body []byte) *Custody {
	b := new(CustodyEntry)
	if Unmarshal(body, b) != nil {
		return nil
	}
	return b.Custody()
}

// Custody returns the statement in the entry, or nil if the statement cannot be read. It does not check the signature.
func (b *CustodyEntry) Custody() *Custody {
	text, _, ok := strings.Cut(b.Note, "\n\n")
	if !ok {
		return nil
	}
	c, err := parseCustody(text + "\n")
	if err != nil {
		return nil
	}
	return &c
}

// Erasure returns the statement in the body of an entry of TypeErased, which lists the project's
// entries to forget. It returns nil for every other body. It does not check the signature, because
// ingest checked it before it wrote the entry.
func Erasure(body []byte) *Custody {
	if c := Ordered(body); c != nil && c.DataSubject != "" && c.Do == DoForget {
		return c
	}
	return nil
}

// CustodyEntry is the ledger body of a statement that ingest accepted. At an entry of TypeForgotten, each stage drops
// everything that it derived from earlier entries of the project. At an entry of TypeErased, each stage rebuilds its
// state from all entries except those that the statement lists.
type CustodyEntry struct {
	EntryHead
	Do     string `json:"do"`
	Signer string `json:"signer"`
	Note   string `json:"note"`
	// Steps is set if ingest carries out an order to expire in later entries (see ExpiryStep). If it
	// is not set, ingest drops all expired beliefs at this entry, as earlier versions did.
	Steps bool `json:"steps,omitzero"`
}

// DroppedEntry reports that a stage has removed everything that it derived from a forgotten
// project, from its state and from its files.
type DroppedEntry struct {
	EntryHead
	// Statement is the id of the statement that ordered the data to be removed.
	Statement string `json:"statement"`
	// Step is set if the entry is a step of an order to expire. Then the entry does not report that a removal is
	// complete.
	Step *ExpiryStep `json:"step,omitzero"`
}

// ExpiryStep says how much work ingest does in one step of an order to expire. After it, ingest takes further steps
// until all expired beliefs are dropped.
type ExpiryStep struct {
	Looks int `json:"looks"` // maximum number of beliefs, or of documents of an index, that it examines
	Drops int `json:"drops"` // maximum number of beliefs that it drops
	Bytes int `json:"bytes"` // maximum number of bytes of an index that it reads
	// Sessions is set if the expiry also drops the state of silent sessions. Steps of earlier versions do not have it.
	Sessions bool `json:"sessions,omitzero"`
}
