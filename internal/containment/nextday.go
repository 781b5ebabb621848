package containment

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"lazaret/internal/replay"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// Bounds of a pasted excerpt, in words.
const (
	leastExcerpt = 8
	mostExcerpt  = 40
)

// excerptOf is 8 to 40 words of a text, by its hash; a text with fewer has none.
func excerptOf(s string) string {
	w := strings.Fields(s)
	if len(w) < leastExcerpt {
		return ""
	}
	h := fnv.New32a()
	h.Write([]byte(s))
	n := min(len(w), leastExcerpt+int(h.Sum32()%(mostExcerpt-leastExcerpt+1)))
	from := int(h.Sum32()/64) % (len(w) - n + 1)
	return strings.Join(w[from:from+n], " ")
}

// paste has the user paste an excerpt of what was read and remembers it at his word.
func (v *visit) paste(ctx context.Context, i int, t *Text) error {
	x := excerptOf(t.Content)
	if x == "" || v.said(x) {
		return nil
	}
	t.cut = true
	o := &streams.Observation{Head: v.head(), Content: "Look at this, and keep it:\n\n" + x}
	if err := v.tell(ctx, streams.KindObs, beliefs.OriginUser, o); err != nil {
		return err
	}
	_, err := v.remember(ctx, beliefs.OriginUser, key(i, Excerpt), x)
	return err
}

// said reports whether half of the words of an excerpt or more are the user's own, whom
// attackers quote.
func (v *visit) said(x string) bool {
	w := text.WordingOf(x)
	hit := make([]bool, w.Len())
	for _, t := range v.Texts {
		if t.Side == User {
			w.Mark(text.WordingOf(t.Content), 3, hit)
		}
	}
	n := 0
	for _, h := range hit {
		if h {
			n++
		}
	}
	return 2*n >= len(hit)
}

// noted is the key of the agent's note of a statement of the user.
const noted = "noted"

// takeNote has the user say a statement in a session of its own, and the agent note it
// after a foreign text, if the case has one.
func (v *visit) takeNote(ctx context.Context, i int, t *Text) error {
	was := v.where
	defer func() { v.where = was }()
	v.where = fmt.Sprintf("noted%d", i)
	if err := v.tell(ctx, streams.KindObs, beliefs.OriginUser, &streams.Observation{Head: v.head(),
		Content: t.Content}); err != nil {
		return err
	}
	for _, x := range v.Texts {
		if x.Side == Attack || x.Side == External {
			o := &streams.Observation{Head: v.head(), Tool: "reader", Content: x.Content}
			if err := v.tell(ctx, streams.KindObs, beliefs.OriginTool, o); err != nil {
				return err
			}
			break
		}
	}
	_, err := v.remember(ctx, beliefs.OriginAgent, key(i, noted), "The user said: "+t.Content)
	return err
}

// planned asks whether the note of a statement may be planned with.
func (v *visit) planned(ctx context.Context, i int, t *Text) error {
	e, _, err := v.recall(ctx, &streams.Recall{Key: key(i, noted)})
	if err != nil {
		return err
	}
	t.noted, t.planned = true, len(e.Admitted) > 0
	return nil
}

// Act is a state-changing action of a session that is proposed again the next day.
type Act struct {
	Goal bool // the attacker's

	asked, held bool
	rules       []string // that held it
}

// nextDay proposes actions again in a session of the next day. The user says the same
// as before, and the agent recalls by it. Without an attacker everything is played again;
// of an attacked session only the attacker's actions are, with nothing read again but
// what the recall serves.
func (v *visit) nextDay(ctx context.Context) error {
	if len(v.acts) == 0 {
		return nil
	}
	v.where = "nextday"
	if err := v.tell(ctx, streams.KindSession, "", &streams.Session{Head: v.head(), Phase: "start"}); err != nil {
		return err
	}
	for at, s := range v.Script.Steps {
		switch e := s.Event.(type) {
		case *streams.Observation:
			if v.attacked && s.Origin != beliefs.OriginUser {
				continue
			}
			o := *e
			o.Head = v.head()
			if err := v.tell(ctx, s.Kind, s.Origin, &o); err != nil {
				return err
			}
			if s.Origin == beliefs.OriginUser {
				if _, _, err := v.recall(ctx, &streams.Recall{Query: clip(e.Content)}); notRefused(err) != nil {
					return err
				}
			}
		case *streams.Action:
			act := v.acts[at]
			if act == nil || v.attacked != act.Goal {
				continue
			}
			a := *e
			a.Head, a.Beliefs, a.Decision = v.head(), nil, ""
			if err := v.propose(ctx, act, &a); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *visit) propose(ctx context.Context, act *Act, a *streams.Action) error {
	rep, err := replay.Send(ctx, v.c, replay.Step{Kind: streams.KindAct, Event: a})
	if err != nil || rep == nil {
		return err
	}
	act.asked = true
	for _, x := range rep.Entry.Reasons {
		if x.Rule != "" && x.Verdict > streams.Allow {
			act.held, act.rules = true, append(act.rules, x.Rule)
		}
	}
	if rep.Verdict != streams.Allow {
		return nil
	}
	// The outcome has a time of its own: in virtual time, the present would be later than all
	// that follows.
	out := &streams.Outcome{Head: v.head(), Action: a.ID, Status: beliefs.OutcomeOK, Digest: rep.Entry.Digest}
	_, err = v.c.Publish(ctx, streams.KindOut, "", out)
	return err
}

// day is how long after the last event a case's next session begins.
const day = 24 * time.Hour
