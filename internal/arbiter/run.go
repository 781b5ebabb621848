package arbiter

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/metrics"
	"lazaret/internal/query"
	"lazaret/internal/stage"
	"lazaret/pkg/keys"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// Names of the queries that the arbiter answers.
const (
	AskHolds       = "holds"
	AskCalibration = "calibration"
)

// HoldsRequest asks for the holds in a partition.
type HoldsRequest struct {
	Project string `json:"project,omitzero"`
	State   string `json:"state,omitzero"` // see streams.HoldOpen; empty: all
	ID      string `json:"id,omitzero"`    // only this hold, with its body
}

// Hold is a hold as queries return it.
type Hold struct {
	ID       string               `json:"id"`
	Revision string               `json:"revision"`
	Project  string               `json:"project"`
	Agent    string               `json:"agent"`
	State    string               `json:"state"`
	Opened   time.Time            `json:"opened"`
	Expires  time.Time            `json:"expires"`
	Verdict  streams.VerdictEntry `json:"verdict"`
	// Body is the whole held content. It is set if the request asks for one hold by id and the hold is open.
	Body string `json:"body,omitzero"`
	// Approvers are the roles that a signer needs under the policy in force. The signer's key must have all of them.
	// They are set if the request asks for one hold by id.
	Approvers []keys.Role `json:"approvers,omitzero"`
	// Catalogue is the ledger sequence of the tool catalogue that the held action asks to accept. If the request asks
	// for one hold by id, Tools and Instructions are those of the catalogue, or Missing says why they are not shown.
	Catalogue    uint64         `json:"catalogue,omitzero"`
	Tools        []streams.Tool `json:"tools,omitzero"`
	Instructions string         `json:"instructions,omitzero"`
	Missing      string         `json:"missing,omitzero"`
	// Sources are the sources whose steps the held action carries out. They are set if the request asks for one hold by
	// id.
	Sources []ShownSource `json:"sources,omitzero"`
}

// maxHolds is the maximum number of holds in an answer.
const maxHolds = 1000

// migrations are the arbiter's own migrations, by the format from which they start.
var migrations = map[int]stage.Migration{
	15: {}, // since format 16, the findings that an approval cleared are recorded
	16: {}, // since format 17, a cleared finding is identified by streams.FindingKey, and confirmations clear findings too
}

// Run runs the arbiter until ctx ends. If front has connections, Run also serves requests. m may be nil.
func Run(ctx context.Context, cfg stage.Config, pinned note.Verifiers, front FrontConfig, m *metrics.Process) error {
	cfg.Name, cfg.Migrations = streams.StageArbiter, migrations
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	queries := make(chan stage.Query)
	fold := NewFold(pinned, cfg.Log)
	if front.Service != nil {
		ask := func(answer func(st *stage.State, req []byte) (any, error)) query.Handler {
			return stage.Answering(queries, "the arbiter", answer)
		}
		js, err := jetstream.New(cfg.Conn)
		if err != nil {
			return err
		}
		stop, err := query.Serve(front.Service, "lazaret-arbiter", "Holds, and the calibration of agents",
			stage.PartitionList(cfg.Partitions),
			map[string]query.Handler{AskHolds: showing(js, ask(fold.listHolds)), AskCalibration: ask(listCalibration),
				AskFindings: ask(listFindings)}, cfg.Log)
		if err != nil {
			return err
		}
		defer stop()
		front.Log = cfg.Log
		front.Pending = func(ctx context.Context, project, agent, id string, intake uint64) (until time.Time, ok bool) {
			type answer struct {
				until time.Time
				ok    bool
			}
			said := make(chan answer, 1)
			err := stage.Ask(ctx, queries, streams.PartitionOf(project), func(st *stage.State) {
				u, ok, err := waitsUntil(st, project, agent, id, intake)
				said <- answer{u, ok && err == nil}
			})
			if err != nil {
				return time.Time{}, false
			}
			a := <-said
			return a.until, a.ok
		}
		f, err := StartFront(ctx, front)
		if err != nil {
			return err
		}
		defer f.Close()
		fold.recalled, fold.dropped = f.recalled, f.dropRecalls
	}
	fold.Metrics = m.Arbiter()
	if fold.Metrics != nil {
		cfg.Published = fold.Metrics.Published
	}
	return stage.RunLedger(ctx, cfg, fold, queries)
}

// showing adds those parts to an answer about one hold that are in the ledger and not in the state.
func showing(js jetstream.JetStream, list query.Handler) query.Handler {
	return func(ctx context.Context, p int, req []byte) (any, error) {
		v, err := list(ctx, p, req)
		if holds, ok := v.([]Hold); ok && err == nil && len(holds) == 1 && holds[0].Body != "" {
			if err = showTools(ctx, js, &holds[0]); err == nil {
				err = showSources(ctx, js, &holds[0])
			}
		}
		return v, err
	}
}

// waitsUntil returns until when an open proposal waits for its groups. id is the one that the caller sent. intake is
// the place in the intake of the proposal or of a repeat.
func waitsUntil(st *stage.State, project, agent, id string, intake uint64) (until time.Time, ok bool, err error) {
	p, err := waitingFor(st, project, agent, id)
	if err != nil {
		return until, false, err
	}
	if p == nil || !p.asked(intake) {
		if p, err = waitingReused(st, project, agent, id, intake); err != nil || p == nil {
			return until, false, err
		}
	}
	return p.waits(), true, nil
}

// asked reports whether the proposal or one of its repeats has this place in the intake.
func (p *proposal) asked(intake uint64) bool {
	return p.Intake == intake || slices.Contains(p.Also, intake)
}

// maxWaitingLooked is the maximum number of open proposals of an agent that one query examines.
const maxWaitingLooked = 1000

// waitingReused returns the open proposal that was sent with this id although another event had it, or nil.
func waitingReused(st *stage.State, project, agent, id string, intake uint64) (found *proposal, err error) {
	n := 0
	prefix := stage.Key(keyWaiting, project, agent, "")
	err = st.Scan(prefix, func(k, _ []byte) (bool, error) {
		p, err := waitingFor(st, project, agent, string(k[len(prefix):]))
		if err == nil && p != nil && p.Reuses == id && p.asked(intake) {
			found = p
		}
		n++
		return found == nil && n < maxWaitingLooked, err
	})
	return found, err
}

func (f *Fold) listHolds(st *stage.State, req []byte) (any, error) {
	var q HoldsRequest
	if err := streams.Unmarshal(req, &q); err != nil {
		return nil, err
	}
	out := []Hold{}
	prefix := []byte{keyHold}
	if q.Project != "" {
		prefix = stage.Key(keyHold, q.Project, "")
	}
	err := st.Scan(prefix, func(_, v []byte) (bool, error) {
		h := new(hold)
		if err := streams.Unmarshal(v, h); err != nil {
			return false, err
		}
		if (q.State != "" && q.State != h.State) || (q.ID != "" && q.ID != h.ID) {
			return true, nil
		}
		x := Hold{ID: h.ID, Revision: h.Revision, Project: h.Project, Agent: h.Agent, State: h.State, Opened: h.Opened,
			Expires: h.Expires, Verdict: h.Entry, Catalogue: h.Catalogue}
		if q.ID != "" {
			x.Body = h.Body
			if err := listSources(st, &x, h); err != nil {
				return false, err
			}
			pol, _, err := f.policies.Active(st, streams.DoActivatePolicy)
			if err != nil {
				return false, err
			}
			if pol != nil {
				x.Approvers = approvers(pol, h)
			}
			if pol != nil && h.State == streams.HoldOpen {
				if err := f.showFresh(st, &x, h, pol); err != nil {
					return false, err
				}
			}
		}
		out = append(out, x)
		return len(out) < maxHolds, nil
	})
	return out, err
}

// showFresh adds new reasons against an open hold to x, and sets the revision that a signature must name.
func (f *Fold) showFresh(st *stage.State, x *Hold, h *hold, pol *policy.Policy) error {
	fresh, err := f.recheck(st, h, pol)
	if err != nil || len(fresh) == 0 || strictest(fresh) == streams.Deny {
		return err
	}
	x.Verdict.Reasons = append(slices.Clip(x.Verdict.Reasons), fresh...)
	x.Revision = revision(x.Verdict.Reasons)
	ref := *x.Verdict.Hold
	ref.Revision = x.Revision
	x.Verdict.Hold = &ref
	return nil
}
