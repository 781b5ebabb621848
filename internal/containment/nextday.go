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

// Limits of a pasted excerpt, in words.
const (
	leastExcerpt = 8
	mostExcerpt  = 40
)

// excerptOf returns 8 to 40 words of a text, chosen by its hash, or "" if the text is shorter.
func excerptOf(s string) string {
	w := strings.Fields(s)
	if len(w) < leastExcerpt {
		return ""
	}
	h := fnv.New32a()
	h.Write([]byte(s))
	n := min(len(w), leastExcerpt+int(h.Sum32()%(mostExcerpt-leastExcerpt+1)))
	from := int(h.Sum32()/64) % (len(w) - n + 1)
	x := strings.Join(w[from:from+n], " ")
	if text.WordingOf(x).Len() < leastExcerpt {
		return "" // some of the words are only dashes or other marks
	}
	return x
}

// paste makes the user paste an excerpt of a text, which is remembered with origin user.
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

// said reports whether at least half of the words of an excerpt are words that the user said. Such an excerpt is not
// used, because the attacker may quote the user.
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

// noted is the key suffix of the agent's note of a user's statement.
const noted = "noted"

// takeNote plays a separate session: the user makes a statement, and the agent notes it after reading
// an external text, if the case has one.
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

// planned checks whether the note of a statement may be used for planning.
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
	Goal bool // an action of the attacker

	asked, held bool
	rules       []string // rules that held the action
}

// nextDay proposes actions again in a session of the next day. The user makes the same request, and the agent recalls
// its memory with this request as the query. A session without an attack is played again completely. Of an attacked
// session, only the attacker's actions are proposed, and the agent reads only what the recall returns.
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
	// The outcome has the real time. The virtual time of the session would be later than all following events.
	out := &streams.Outcome{Head: v.head(), Action: a.ID, Status: beliefs.OutcomeOK, Digest: rep.Entry.Digest}
	_, err = v.c.Publish(ctx, streams.KindOut, "", out)
	return err
}

// day is the time between the last event and a case's next session.
const day = 24 * time.Hour
