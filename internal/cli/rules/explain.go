package rules

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/datafolder"
	"lazaret/internal/replay"
	"lazaret/internal/stage"
	"lazaret/internal/wire"
	"lazaret/pkg/keys"
	"lazaret/pkg/position"
	"lazaret/pkg/rules"
	"lazaret/pkg/rules/ruletest"
	"lazaret/pkg/signals/index"
	"lazaret/pkg/text"
	"lazaret/streams"
)

func init() { Verbs.Add("rules", explainCommand) }

func explainCommand(a *verb.App) *cobra.Command {
	var event, seq string
	var json bool
	var only explainOnly
	c := &cobra.Command{
		Use:   "explain {--event FILE | --seq POSITION} [DIR]",
		Short: "Explain the result of each rule on an event",
		Long: `Explain for each rule its result on one event: which conditions were true, with the
values of their variables, or why the rule was not evaluated.

--event explains the last event in FILE by the rules in DIR or the shipped ones. FILE has
the format of the field given in tests. --seq explains an entry in a running pipeline's
ledger by the rules that were active then, or those in DIR. It replays the entry's project up
to the entry, so that signals have their values of that time.`,
		Example: "  lazaret rules explain --event event.yaml ./rules\n  lazaret rules explain --seq 4711 --fired",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var x *explained
			var err error
			if event != "" {
				x, err = explainFile(event, args)
			} else {
				var at uint64
				if at, err = position.Parse(seq); err != nil {
					return fmt.Errorf("--seq: %w", err)
				}
				x, err = explainSeq(a, cmd.Context(), at, args)
			}
			if err != nil {
				return err
			}
			if err := x.keep(only); err != nil {
				return err
			}
			if json {
				return cli.JSON(cmd.OutOrStdout(), x)
			}
			return x.print(cmd.OutOrStdout())
		},
	}
	c.Flags().StringVar(&event, "event", "", "explain the last event of `FILE`")
	c.Flags().StringVar(&seq, "seq", "", "explain the ledger entry of this `POSITION`, such as 98 or 98.2")
	c.MarkFlagsOneRequired("event", "seq")
	c.MarkFlagsMutuallyExclusive("event", "seq")
	c.Flags().StringVar(&only.rule, "rule", "", "only this `RULE`")
	c.Flags().BoolVar(&only.fired, "fired", false, "only rules that fire")
	c.Flags().BoolVar(&json, "json", false, "print JSON")
	return c
}

// explained is an event, with what each rule of the rule set says about it.
type explained struct {
	Seq     uint64              `json:"seq"`
	Type    streams.Type        `json:"type"`
	Project string              `json:"project"`
	Rules   string              `json:"rule_set"` // digest
	Verdict streams.Verdict     `json:"verdict"`
	Results []rules.Explanation `json:"rules"`
}

type explainOnly struct {
	rule  string
	fired bool
}

func (x *explained) keep(only explainOnly) error {
	var out []rules.Explanation
	for _, r := range x.Results {
		if (only.rule == "" || r.Rule == only.rule) && (!only.fired || r.Fires()) {
			out = append(out, r)
		}
	}
	if x.Results = out; only.rule != "" && len(out) == 0 && !only.fired {
		return fmt.Errorf("no rule %s looks at entries of the type %s", only.rule, x.Type)
	}
	return nil
}

func (x *explained) print(w io.Writer) error {
	fmt.Fprintf(w, "entry %s, %s of project %s, rules %.19s\n", position.Text(x.Seq), x.Type,
		text.InertLine(x.Project, 64), x.Rules)
	for _, r := range x.Results {
		fmt.Fprintf(w, "\n%s", r)
	}
	if !x.Type.Proposal() {
		return nil
	}
	_, err := fmt.Fprintf(w, "\nverdict of the rules: %s\n", x.Verdict)
	return err
}

// explainer plays entries to every group of a rule set.
type explainer struct {
	set    *rules.Set
	stores map[string]*index.MemStore // stored signals, by sentinel group
}

func newExplainer(set *rules.Set) *explainer {
	return &explainer{set: set, stores: make(map[string]*index.MemStore)}
}

func (x *explainer) store(group string) *index.MemStore {
	if x.stores[group] == nil {
		x.stores[group] = index.NewMemStore()
	}
	return x.stores[group]
}

func (x *explainer) play(e *streams.Entry) error {
	for _, g := range x.set.Groups() {
		if _, err := x.set.Group(g).Eval(x.store(g), e); err != nil {
			return err
		}
	}
	return nil
}

func (x *explainer) explain(e *streams.Entry) (*explained, error) {
	out := &explained{Seq: e.Position(), Type: e.Type, Project: e.Project, Rules: x.set.Digest()}
	for _, g := range x.set.Groups() {
		rs, res, err := x.set.Group(g).Explain(x.store(g), e)
		if err != nil {
			return nil, err
		}
		out.Results, out.Verdict = append(out.Results, rs...), out.Verdict.Join(res.Verdict)
	}
	return out, nil
}

func explainFile(name string, dir []string) (*explained, error) {
	set, err := compileRules(dir)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	es, err := ruletest.Events(name, b)
	if err != nil {
		return nil, err
	}
	x := newExplainer(set)
	for _, e := range es[:len(es)-1] {
		if err := x.play(e); err != nil {
			return nil, err
		}
	}
	return x.explain(es[len(es)-1])
}

// explainSeq explains an entry in the ledger of a running pipeline.
func explainSeq(a *verb.App, ctx context.Context, seq uint64, dir []string) (*explained, error) {
	nc, err := a.Conn.Connect("operator")
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	e, err := ledgerEntry(ctx, nc, seq)
	if err != nil {
		return nil, err
	}
	// For an assessment or alert, explain the event from which the entry was made.
	for range 4 {
		if e.Stage == streams.StageIngest {
			break
		}
		if e, err = ledgerEntry(ctx, nc, e.Src); err != nil {
			return nil, err
		}
	}
	seq = e.Position()
	if e.Stage != streams.StageIngest || e.Type == streams.TypeChunk || e.Type == streams.TypeActivation {
		return nil, fmt.Errorf("ledger entry %s has type %q and is of stage %s; rules do not judge such entries",
			position.Text(seq), e.Type, e.Stage)
	}
	project, x := e.Project, newExplainer(nil)
	force := &inForce{chunks: make(map[string]map[int][]byte)}
	if len(dir) > 0 {
		if x.set, err = compileRules(dir); err != nil {
			return nil, err
		}
	} else {
		a.Conn.Resolve()
		trust, err := keys.LoadTrust(datafolder.TrustFile(a.Conn.Data))
		if err != nil {
			return nil, fmt.Errorf("%w: without the trust file the rules in force cannot be verified; name their folder", err)
		}
		force.pinned = trust.Verifiers(keys.RoleOperator)
	}
	var out *explained
	err = replay.Entries(ctx, nc, 0, e.Seq, func(e *streams.Entry) (err error) {
		if e.Stage != streams.StageIngest {
			return nil // an assessment of another group in a joint frame
		}
		switch e.Type {
		case streams.TypeChunk, streams.TypeActivation:
			if len(dir) == 0 {
				return force.apply(e, &x.set)
			}
			return nil
		}
		switch {
		case e.Position() == seq && x.set == nil:
			return fmt.Errorf("the ledger has no activation of rules before entry %s: if it was trimmed (lazaret doctor shows "+
				"this), name the rules' folder", position.Text(seq))
		case e.Position() == seq:
			out, err = x.explain(e)
		case x.set != nil && e.Project == project:
			err = x.play(e)
		}
		return err
	}, streams.StageSubjects(e.Partition, streams.StageIngest)...)
	return out, err
}

func ledgerEntry(ctx context.Context, nc *nats.Conn, seq uint64) (*streams.Entry, error) {
	js := wire.JetStream(nc)
	e, err := stage.ReadEntry(ctx, js, seq)
	if err != nil {
		return nil, fmt.Errorf("ledger entry %s: %w", position.Text(seq), err)
	}
	return &e, nil
}

// inForce tracks the active rules of a partition, as its sentinels do.
type inForce struct {
	pinned note.Verifiers
	chunks map[string]map[int][]byte // by digest
}

func (f *inForce) apply(e *streams.Entry, set **rules.Set) error {
	if e.Type == streams.TypeChunk {
		var c streams.ChunkEntry
		if err := streams.Unmarshal(e.Body, &c); err != nil {
			return nil // ignored, as sentinels do
		}
		if f.chunks[c.Digest] == nil {
			f.chunks[c.Digest] = make(map[int][]byte)
		}
		f.chunks[c.Digest][c.Index] = c.Chunk
		return nil
	}
	var act streams.ActivationEntry
	if err := streams.Unmarshal(e.Body, &act); err != nil {
		return nil
	}
	cmd, _, err := streams.OpenCommand([]byte(act.Note), f.pinned)
	if err != nil || cmd.Do != streams.DoActivateRules {
		return nil
	}
	var bundle []byte
	for i := range len(f.chunks[cmd.Digest]) {
		bundle = append(bundle, f.chunks[cmd.Digest][i]...)
	}
	if streams.Digest(bundle) != cmd.Digest {
		return nil
	}
	s, err := rules.CompileBundle(bundle)
	if err != nil {
		return fmt.Errorf("the rules in force since ledger entry %s do not compile in this version: %w",
			position.Text(e.Seq), err)
	}
	*set = s
	return nil
}
