package holds

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"lazaret/internal/arbiter"
	"lazaret/internal/cli"
	"lazaret/internal/query"
	"lazaret/pkg/approval"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// TopReason returns the reason under which a hold is listed: the most specific of the strictest reasons
// that caused it. Of equally specific ones it returns the first in the canonical order. Reasons that
// ask for nothing, and the end of a hold, do not count.
func TopReason(v *streams.VerdictEntry) (top streams.Reason) {
	first := true
	for _, r := range v.Reasons {
		switch r.Code {
		case streams.CodeApproved, streams.CodeRejected, streams.CodeCancelled, streams.CodeExpired:
			if len(v.Reasons) > 1 {
				continue
			}
		}
		if first || r.Verdict > top.Verdict || r.Verdict == top.Verdict && specificity(&r) > specificity(&top) {
			top, first = r, false
		}
	}
	return top
}

// specificity ranks the reasons of a verdict, highest first: a rule, a dependency of the proposal, a
// fact about the proposal, a group without an answer, the level.
func specificity(r *streams.Reason) int {
	switch {
	case r.Rule != "":
		return 5
	case r.Code == streams.CodeFloor && len(r.Path) == 0:
		return 0
	case r.Code == streams.CodeFloor: // a list of tools
		return 1
	case r.Code == streams.CodeSilent, r.Code == streams.CodeHoldBudget:
		return 2
	case len(r.Path) > 0:
		return 4
	}
	return 3
}

// Group is a group of similar holds: the same agent, tool and reason.
type Group struct {
	arbiter.Hold
	Why string   // text of the reason
	IDs []string // ids of all holds
}

// Likeness are the properties that similar holds share.
type Likeness struct{ State, Project, Agent, Tool, Level, Why string }

// LikenessOf returns the properties that a hold shares with similar ones.
func LikenessOf(h *arbiter.Hold) Likeness {
	r := TopReason(&h.Verdict)
	k := Likeness{h.State, h.Project, h.Agent, h.Verdict.Tool, h.Verdict.Level, string(r.Code) + r.Rule}
	if r.Rule == "" {
		k.Why += r.Text
	}
	if h.Verdict.Tool == streams.ApproveTools {
		k.Why += h.Verdict.Digest // lists of tools are never similar
	}
	return k
}

// Grouped groups similar holds, in order of first occurrence.
func Grouped(items []arbiter.Hold) []*Group {
	var out []*Group
	by := make(map[Likeness]*Group)
	for _, h := range items {
		r, k := TopReason(&h.Verdict), LikenessOf(&h)
		g := by[k]
		if g == nil {
			g = &Group{Hold: h, Why: r.Text}
			by[k] = g
			out = append(out, g)
		}
		if h.Expires.Before(g.Expires) {
			g.Hold, g.Why = h, r.Text // the hold that expires first represents the group
		}
		g.IDs = append(g.IDs, h.ID)
	}
	return out
}

// Find finds a hold in the partition of a project, or in all partitions if project is empty.
func Find(ctx context.Context, nc *nats.Conn, project, id string) (*arbiter.Hold, error) {
	if err := streams.CheckID("hold", id); err != nil {
		return nil, err
	}
	for _, p := range query.Partitions(project) {
		var page []arbiter.Hold
		if err := query.Ask(ctx, nc, arbiter.AskHolds, p, arbiter.HoldsRequest{Project: project, ID: id}, &page); err != nil {
			return nil, err
		}
		if len(page) > 0 {
			return &page[0], nil
		}
	}
	return nil, &cli.Exit{Code: cli.ExitNegative, Text: "there is no hold " + id + ": lazaret holds ls lists them"}
}

// CheckShown returns an error if the shown content of a hold does not have the digest that is signed.
// It computes the digest itself.
func CheckShown(h *arbiter.Hold) error {
	v := &h.Verdict
	var digest string
	var err error
	if v.Type == streams.TypeMemory {
		key := ""
		if v.Belief != nil {
			key = v.Belief.Key
		}
		digest, err = approval.MemoryDigest(h.Project, h.Agent, v.Session, cmp.Or(v.Reuses, v.ID), key, h.Body)
	} else {
		digest, err = approval.ActionDigest(h.Project, h.Agent, v.Session, cmp.Or(v.Reuses, v.ID), v.Tool,
			jsontext.Value(h.Body))
	}
	if err != nil {
		return err
	}
	if args := new(streams.ApproveToolsArgs); len(h.Tools) > 0 &&
		(streams.Unmarshal([]byte(h.Body), args) != nil || streams.CatalogueDigest(args.Server, h.Instructions,
			h.Tools) != args.Digest) {
		return &cli.Exit{Code: cli.ExitNegative,
			Text: "the tools that the arbiter shows are not those of the list that is to be accepted: do not sign"}
	}
	if digest != v.Digest {
		return &cli.Exit{Code: cli.ExitNegative,
			Text: fmt.Sprintf("what the arbiter shows has digest %s, but the signature would cover %s: do not sign, "+
				"check the ledger entry %s", digest, v.Digest, position.Text(v.Proposal))}
	}
	return nil
}

// CheckSource returns an error if the shown text of a source does not have the digest that is signed.
func CheckSource(s *arbiter.ShownSource) error {
	if digest := streams.TextsDigest(s.Texts); digest != s.Digest {
		return &cli.Exit{Code: cli.ExitNegative, Text: fmt.Sprintf("the source that the arbiter shows has the digest %q, "+
			"but the source to be approved has %s: do not sign, check the ledger entry %s", digest, s.Digest,
			position.Text(s.Entry))}
	}
	return nil
}

// Send sends a signed resolution of a hold and returns the reply.
func Send(ctx context.Context, nc *nats.Conn, project, hold string, signed []byte) (*streams.ResolveReply, error) {
	return send(ctx, nc, project, hold, streams.ResolveRequest{Note: string(signed)})
}

// Attest sends a signed attestation on a belief.
func Attest(ctx context.Context, nc *nats.Conn, project, belief string, signed []byte) (*streams.ResolveReply, error) {
	return send(ctx, nc, project, belief, streams.ResolveRequest{Note: string(signed), Belief: true})
}

func send(ctx context.Context, nc *nats.Conn, project, name string, req streams.ResolveRequest) (*streams.ResolveReply,
	error) {
	subject, err := streams.ResolveSubject(project, name)
	if err != nil {
		return nil, err
	}
	body, err := streams.Marshal(req)
	if err != nil {
		return nil, err
	}
	m, err := nc.RequestWithContext(ctx, subject, body)
	if errors.Is(err, nats.ErrNoResponders) {
		return nil, fmt.Errorf("nobody answers on %s: is the pipeline running?", subject)
	}
	if err != nil {
		return nil, fmt.Errorf("no answer on %s: %w: the hold may be resolved already; look at it before you sign again",
			subject, err)
	}
	rep := new(streams.ResolveReply)
	if err := streams.Unmarshal(m.Data, rep); err != nil {
		return nil, fmt.Errorf("answer on %s: %w", subject, err)
	}
	return rep, nil
}
