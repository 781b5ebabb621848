package ingest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"lazaret/internal/activation"
	"lazaret/internal/query"
	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// The queries that ingest answers.
const (
	AskBeliefs = "beliefs"
	AskActive  = "active"
	AskBundle  = "bundle"
)

// BeliefsRequest asks for beliefs of one project, in the order of their ids.
type BeliefsRequest struct {
	Project string `json:"project"`
	ID      string `json:"id,omitzero"`    // only this belief
	After   string `json:"after,omitzero"` // only beliefs after this id
	Limit   int    `json:"limit,omitzero"` // maximum number, at most 1,000; 0: 1,000
}

// BeliefsAnswer is a page of beliefs. Next is the After of the request for the next page, or "" on the last page.
type BeliefsAnswer struct {
	Beliefs []Belief `json:"beliefs"`
	Next    string   `json:"next,omitzero"`
}

// Belief is a belief as queries return it.
type Belief struct {
	streams.BeliefRef
	Project string `json:"project"`
	// Agent, Session and Tool are those of the first reading of the content, or of the memory write.
	Agent   string           `json:"agent,omitzero"`
	Session string           `json:"session,omitzero"`
	Tool    string           `json:"tool,omitzero"`
	Content string           `json:"content"` // a memory's whole text; the beginning of read content
	Adopted beliefs.Adoption `json:"adopted,omitzero"`
	At      time.Time        `json:"at"`    // when the content was last read or confirmed
	Count   uint64           `json:"count"` // how often the content was read
	Memory  bool             `json:"memory"`
	// Category is the category that a memory's writer gave it.
	Category string `json:"category,omitzero"`
	// Digest is the digest of the whole content, and Revision that of the belief's state. An attestation of the belief
	// names both.
	Digest    string              `json:"digest,omitzero"`
	Revision  string              `json:"revision"`
	Evidence  beliefs.EvidenceSet `json:"evidence,omitzero"`
	Parents   []streams.Parent    `json:"parents,omitzero"`
	Triples   []beliefs.Triple    `json:"triples,omitzero"`
	Conflicts []string            `json:"conflicts,omitzero"`
	Successor string              `json:"successor,omitzero"`
	// Flag is the reason why a person should review the belief, and StagedFor the reason why a person must confirm it
	// before it is more than context. Both are empty if there is none.
	Flag      string `json:"flag,omitzero"`
	StagedFor string `json:"staged_for,omitzero"`
	Signed    string `json:"signed,omitzero"` // name of the key with which a person confirmed the belief
	// The belief is no longer fresh after Stale, and no longer served after Expires. A zero time means no limit.
	Stale   time.Time `json:"stale,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
	// From and To limit the period in which the belief is valid, as its writer stated.
	From time.Time `json:"valid_from,omitzero"`
	To   time.Time `json:"valid_to,omitzero"`
}

// AllBeliefs returns all beliefs of a project. It asks ingest for one page after another.
func AllBeliefs(ctx context.Context, nc *nats.Conn, project string) (all []Belief, err error) {
	req := BeliefsRequest{Project: project}
	for {
		var ans BeliefsAnswer
		if err := query.Ask(ctx, nc, AskBeliefs, streams.PartitionOf(project), req, &ans); err != nil {
			return nil, err
		}
		all = append(all, ans.Beliefs...)
		if req.After = ans.Next; req.After == "" {
			return all, nil
		}
	}
}

// ActiveRequest asks what is in force in a partition. Groups are the sentinel groups of a policy that is not in force
// yet: the answer says whether the partition would refuse the policy because of them.
type ActiveRequest struct {
	Groups []string `json:"groups,omitzero"`
}

// ActiveAnswer has the digests of the rule set, policy and trust file that are in force in a partition.
type ActiveAnswer struct {
	Rules  string `json:"rules"`
	Policy string `json:"policy"`
	Trust  string `json:"trust"`
	// Added is set if the policy in force does not require all requested groups, so that the partition may refuse a
	// policy that requires them. Late says why it would refuse such a policy now; "" if it would not.
	Added bool   `json:"added,omitzero"`
	Late  string `json:"late,omitzero"`
}

// Digest returns the digest of what a command such as streams.DoActivateRules put in force.
func (a *ActiveAnswer) Digest(do string) string {
	return map[string]string{streams.DoActivateRules: a.Rules, streams.DoActivatePolicy: a.Policy,
		streams.DoActivateTrust: a.Trust}[do]
}

// BundleRequest asks for a part, of at most streams.ChunkSize bytes, of the bundle that is in force. Do is the command
// that put it in force, such as streams.DoActivateRules.
type BundleRequest struct {
	Do     string `json:"do"`
	Offset int    `json:"offset"`
}

// BundleAnswer is a part of a bundle.
type BundleAnswer struct {
	Digest string `json:"digest"` // digest of the whole bundle; empty if nothing is in force
	Size   int    `json:"size"`   // size of the whole bundle in bytes
	Part   []byte `json:"part"`
}

// Run runs ingest until ctx ends. svc is the connection for answering queries; nil: ingest answers none.
func Run(ctx context.Context, cfg stage.Config, fold Config, svc *nats.Conn) error {
	cfg.Name, cfg.Migrations = streams.StageIngest, migrations
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	fold.Log = cfg.Log
	f := New(fold)
	queries := make(chan stage.Query)
	if svc != nil {
		ask := func(h func(st *stage.State, req []byte) (any, error)) query.Handler {
			return stage.Answering(queries, "ingest", h)
		}
		stop, err := query.Serve(svc, "lazaret-ingest", "Beliefs, incidents and restore points",
			stage.PartitionList(cfg.Partitions), map[string]query.Handler{
				AskBeliefs: ask(listBeliefs), AskActive: ask(f.active), AskBundle: ask(askBundle), AskLineage: ask(askLineage),
				AskPinpoint:  ask(askPinpoint),
				AskIncidents: ask(listIncidents), AskPoints: ask(listPoints), AskRollback: ask(tryRollback),
				AskClasses: ask(listClasses), AskPrompts: ask(listPrompts),
			}, cfg.Log)
		if err != nil {
			return err
		}
		defer stop()
	}
	if m := fold.Metrics.Ingest(); m != nil {
		cfg.Published = m.Published
	}
	return stage.RunIntake(ctx, cfg, f, queries)
}

func (f *Fold) active(st *stage.State, req []byte) (any, error) {
	var q ActiveRequest
	if err := streams.Unmarshal(req, &q); err != nil {
		return nil, err
	}
	var a ActiveAnswer
	var err error
	if len(q.Groups) > 0 {
		added, late, err := f.late(st, q.Groups)
		if err != nil {
			return nil, err
		}
		a.Added, a.Late = len(added) > 0, late
	}
	if a.Rules, err = activation.Digest(st, streams.DoActivateRules); err != nil {
		return nil, err
	}
	if a.Trust, err = activation.Digest(st, streams.DoActivateTrust); err != nil {
		return nil, err
	}
	a.Policy, err = activation.Digest(st, streams.DoActivatePolicy)
	return &a, err
}

func askBundle(st *stage.State, req []byte) (any, error) {
	var q BundleRequest
	if err := streams.Unmarshal(req, &q); err != nil {
		return nil, err
	}
	digest, err := activation.Digest(st, q.Do)
	if err != nil || digest == "" {
		return &BundleAnswer{}, err
	}
	b, err := activation.Bundle(st, q.Do)
	if err != nil {
		return nil, err
	}
	if q.Offset < 0 || q.Offset > len(b) {
		return nil, fmt.Errorf("offset %d is outside the bundle of %d bytes", q.Offset, len(b))
	}
	part := b[q.Offset:min(len(b), q.Offset+streams.ChunkSize)]
	return &BundleAnswer{Digest: digest, Size: len(b), Part: slices.Clone(part)}, nil
}

func listBeliefs(st *stage.State, req []byte) (any, error) {
	var q BeliefsRequest
	if err := streams.Unmarshal(req, &q); err != nil {
		return nil, err
	}
	if err := streams.CheckID("project", q.Project); err != nil {
		return nil, err
	}
	if q.Limit <= 0 || q.Limit > 1000 {
		q.Limit = 1000
	}
	ans := &BeliefsAnswer{Beliefs: []Belief{}}
	prefix := stage.Key(keyBelief, q.Project, "")
	scan := prefix
	if q.ID != "" {
		scan = stage.Key(keyBelief, q.Project, q.ID)
	}
	err := st.Scan(scan, func(k, v []byte) (bool, error) {
		id := string(bytes.TrimPrefix(k, prefix))
		if id <= q.After || q.ID != "" && id != q.ID {
			return true, nil
		}
		if len(ans.Beliefs) == q.Limit {
			ans.Next = ans.Beliefs[q.Limit-1].ID
			return false, nil
		}
		r := new(record)
		if err := readRecord(id, v, r); err != nil {
			return false, err
		}
		if err := again(st, q.Project, r); err != nil {
			return false, err
		}
		ans.Beliefs = append(ans.Beliefs, view(q.Project, r))
		return true, nil
	})
	return ans, err
}
