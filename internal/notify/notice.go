package notify

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"time"

	"lazaret/internal/ceiling"
	"lazaret/internal/holds"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// Kind says what a notification is about.
type Kind string

// The kinds of notifications.
const (
	KindHold    Kind = "hold"    // a hold was opened, or its reasons changed
	KindAlert   Kind = "alert"   // a finding of a sentinel or the arbiter
	KindSettled Kind = "settled" // a hold was resolved, expired, withdrawn or denied
)

var kinds = []Kind{KindHold, KindAlert, KindSettled}

// Notice is one notification. Its texts are untrusted.
type Notice struct {
	ID       string    `json:"id"` // id of the notification, the same in each delivery
	Kind     Kind      `json:"kind"`
	Project  string    `json:"project"`
	Time     time.Time `json:"time"`
	Entry    uint64    `json:"entry"` // position in the ledger
	Agent    string    `json:"agent,omitzero"`
	Session  string    `json:"session,omitzero"`
	Tool     string    `json:"tool,omitzero"`
	Level    string    `json:"level,omitzero"`
	Severity string    `json:"severity"`
	Rule     string    `json:"rule,omitzero"`
	Effect   string    `json:"effect,omitzero"`
	Hold     string    `json:"hold,omitzero"`
	State    string    `json:"state,omitzero"` // new state of a settled hold
	Expires  time.Time `json:"expires,omitzero"`
	Text     string    `json:"text,omitzero"`
	Repeat   int       `json:"repeat,omitzero"` // how often it was sent before
	Link     string    `json:"link,omitzero"`

	over bool // the hold was settled before the delivery
}

// Limits of texts, in characters.
const (
	maxText = 500
	maxName = 128
)

// holdSeverity is the severity of notifications of holds, for receivers that need a severity.
const holdSeverity = "high"

// thread identifies a hold, or a rule in a project. Reminders and acknowledgments refer to it.
func (n *Notice) thread() string {
	if n.Kind == KindAlert {
		return n.Project + "/" + n.Rule
	}
	return n.Project + "/" + n.Hold
}

// group is the key of notifications that are sent together.
func (n *Notice) group() string {
	return string(n.Kind) + " " + n.Project + " " + cmp.Or(n.Rule, n.Tool)
}

// noticesOf returns the notifications for a ledger entry. It ignores an entry type that the entry's
// stage does not write, because a third-party group can write any entry.
func noticesOf(e *streams.Entry) ([]*Notice, error) {
	if e.Project == "" || e.Project == streams.SystemProject {
		return nil, nil
	}
	var out []*Notice
	add := func(n *Notice) {
		n.ID = fmt.Sprintf("%s-%d-%d", n.Kind, e.Position(), len(out))
		n.Project, n.Time, n.Entry = e.Project, e.Time, e.Position()
		out = append(out, n)
	}
	alert := func(a *streams.Alert) {
		if a.Mode == "shadow" || a.Exception != "" {
			return
		}
		add(&Notice{Kind: KindAlert, Agent: a.Agent, Session: a.Session, Severity: a.Severity, Rule: a.Rule,
			Effect: a.Effect, Text: cmp.Or(a.Message, a.Error)})
	}
	_, group := streams.SentinelGroup(e.Stage)
	arbiter := e.Stage == streams.StageArbiter
	switch {
	case e.Type == streams.TypeAlerts && (group || arbiter), e.Type == streams.TypeAssessment && group:
		x, err := streams.Read[streams.AlertsEntry](e) // an assessment has these fields too
		if err != nil {
			return nil, err
		}
		for i := range x.Alerts {
			alert(&x.Alerts[i])
		}
	case e.Type == streams.TypeVerdict && arbiter:
		v, err := streams.Read[streams.VerdictEntry](e)
		if err != nil {
			return nil, err
		}
		if n := verdictNotice(v); n != nil {
			add(n)
		}
		if v.Alert != nil {
			alert(v.Alert)
		}
	case e.Type == streams.TypeHoldState && arbiter:
		s, err := streams.Read[streams.HoldStateEntry](e)
		if err != nil {
			return nil, err
		}
		n := &Notice{Kind: KindSettled, Agent: s.Agent, Severity: "info", Hold: s.Hold, State: s.State}
		add(n)
	}
	return out, nil
}

// verdictNotice returns the notification of a hold that a verdict opens, changes or
// settles, or nil.
func verdictNotice(v *streams.VerdictEntry) *Notice {
	n := &Notice{Agent: v.Agent, Session: v.Session, Tool: v.Tool, Level: v.Level}
	switch {
	case v.Again:
		return nil
	case v.Resolved != nil:
		n.Kind, n.Severity, n.Hold, n.State = KindSettled, "info", v.Resolved.Hold, v.Resolved.State
	case v.Denied != "":
		n.Kind, n.Severity, n.Hold, n.State = KindSettled, "info", v.Denied, streams.HoldDenied
	case v.Hold != nil && v.Verdict == streams.Hold:
		n.Kind, n.Severity, n.Hold, n.Expires = KindHold, holdSeverity, v.Hold.ID, v.Hold.Expires
		n.Text = holds.TopReason(v).Text
	default:
		return nil
	}
	return n
}

// redacted is the beginning of the text that replaces a text above the route's sensitivity.
const redacted = "[redacted: "

// redact changes the notification to the form that may be sent. It shortens the texts,
// makes them inert, and replaces texts whose sensitivity is above most.
func (n *Notice) redact(labels *ceiling.Labels, most beliefs.Sensitivity, position uint64) {
	say := func(s string, limit int) string {
		if s == "" {
			return ""
		}
		if as := labels.Text(n.Project, s, position); !as.Within(most) {
			return redacted + as.String() + "]"
		}
		return text.InertLine(s, limit)
	}
	n.Text = say(n.Text, maxText)
	for _, s := range []*string{&n.Agent, &n.Session, &n.Tool, &n.Rule} {
		*s = say(*s, maxName)
	}
	n.Effect = text.InertLine(n.Effect, maxName) // a third-party group may write anything
}

// link sets the URL of the console's page. It must be called after redact.
func (n *Notice) link(console string) {
	switch {
	case console == "":
	case n.Kind == KindAlert:
		q := url.Values{"project": {n.Project}}
		if !strings.HasPrefix(n.Rule, redacted) {
			q.Set("rule", n.Rule)
		}
		n.Link = console + "/alerts?" + q.Encode()
	default:
		n.Link = console + "/holds/" + url.PathEscape(n.Project) + "/" + url.PathEscape(n.Hold)
	}
}

// headline describes the notification in one line of fixed words and names.
func (n *Notice) headline() string {
	var b strings.Builder
	switch n.Kind {
	case KindHold:
		fmt.Fprintf(&b, "Held in %s", n.Project)
	case KindSettled:
		fmt.Fprintf(&b, "Hold %s in %s", n.State, n.Project)
	default:
		fmt.Fprintf(&b, "Alert (%s) in %s", n.Severity, n.Project)
	}
	if n.Rule != "" {
		b.WriteString(": " + n.Rule)
	}
	if n.Tool != "" {
		b.WriteString(": " + n.Tool)
	}
	if n.Level != "" {
		b.WriteString(", level " + n.Level)
	}
	if n.Agent != "" {
		b.WriteString(", agent " + n.Agent)
	}
	if !n.Expires.IsZero() {
		b.WriteString(", open until " + n.Expires.UTC().Format("2006-01-02 15:04 MST"))
	}
	if n.Repeat > 0 {
		fmt.Fprintf(&b, " (reminder %d)", n.Repeat)
	}
	return b.String()
}

// Message is one delivery: one notification, or a group of several.
type Message struct {
	ID      string    `json:"id"`
	Notices []*Notice `json:"notices"`
}

func newMessage(notices []*Notice) *Message {
	m := &Message{ID: notices[0].ID, Notices: notices}
	if n := notices[0]; n.Repeat > 0 {
		m.ID = fmt.Sprintf("%s-r%d", n.ID, n.Repeat)
	}
	if len(notices) > 1 {
		h := sha256.New()
		for _, n := range notices {
			fmt.Fprintln(h, n.ID)
		}
		m.ID = "group-" + hex.EncodeToString(h.Sum(nil)[:16])
	}
	return m
}

// shown is the maximum number of notifications that a message lists.
const shown = 20

// title describes the message in fixed words and a project's name.
func (m *Message) title() string {
	n := m.Notices[0]
	if len(m.Notices) == 1 {
		return "Lazaret: " + n.headline()
	}
	what := map[Kind]string{KindHold: "holds", KindAlert: "alerts", KindSettled: "settled holds"}[n.Kind]
	return fmt.Sprintf("Lazaret: %d %s in %s", len(m.Notices), what, n.Project)
}

// tame prevents mail and chat programs from turning parts of a value into links.
func tame(s string) string {
	return strings.NewReplacer("://", "[:]//", "www.", "www[.]", "mailto:", "mailto[:]").Replace(s)
}
