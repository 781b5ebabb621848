package backtest

import (
	"fmt"
	"io"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/internal/activation"
	"lazaret/internal/ingest"
	"lazaret/internal/replay"
	"lazaret/internal/stage"
	"lazaret/pkg/policy"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// exported is a ledger entry in JSON.
type exported struct {
	Seq     uint64         `json:"seq"`
	Time    time.Time      `json:"time"`
	Stage   string         `json:"stage"`
	Type    streams.Type   `json:"type"`
	Project string         `json:"project"`
	Src     uint64         `json:"src,omitzero"`
	Body    jsontext.Value `json:"body"`

	Commitment string `json:"commitment,omitzero"` // set in an export of the log
}

// Export writes an entry of ingest as a line that Files reads. It ignores other entries.
func Export(w io.Writer, e *streams.Entry) error {
	if e.Stage != streams.StageIngest {
		return nil
	}
	b, err := streams.Marshal(exported{Seq: e.Seq, Time: e.Time, Stage: e.Stage, Type: e.Type, Project: e.Project,
		Src: e.Src, Body: jsontext.Value(e.Body)})
	if err != nil {
		return fmt.Errorf("ledger entry %s: %w", position.Text(e.Position()), err)
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// Files reads files, or the *.jsonl files in folders, and calls f for each entry of ingest. A line is an exported
// ledger entry, a recorded session, or a piece of content. Files computes the entries of sessions and contents with
// ingest's fold under the shipped policy. Their proposals get no verdict, so a memory stays unverified and hidden.
func Files(paths []string, f func(*streams.Entry) error) error {
	off, err := stage.OpenOffline()
	if err != nil {
		return err
	}
	defer off.Close()
	o := &offline{off: off, fold: ingest.New(ingest.Config{}), f: f, ready: make(map[int]bool)}
	return replay.Lines(paths, func(file string, line []byte) error {
		var x exported
		if err := streams.Unmarshal(line, &x); err == nil && x.Type != "" && len(x.Body) > 0 {
			return f(&streams.Entry{Seq: x.Seq, Time: x.Time, Partition: streams.PartitionOf(x.Project), Stage: x.Stage,
				Type: x.Type, Project: x.Project, Src: x.Src,
				Body: append([]byte(nil), x.Body...)})
		}
		if x.Type != "" && x.Seq != 0 && x.Commitment != "" {
			return nil // the entry has no body, because it was erased or redacted
		}
		s, err := replay.Parse(file, line)
		if err != nil {
			return err
		}
		return o.play(&s)
	})
}

// offline computes ingest's entries for recorded sessions without a server.
type offline struct {
	off   *stage.Offline
	fold  *ingest.Fold
	f     func(*streams.Entry) error
	ready map[int]bool // partitions with an active policy
	seq   uint64
}

func (o *offline) play(s *replay.Script) error {
	p := streams.PartitionOf(s.Project)
	st := o.off.State(p)
	if !o.ready[p] {
		if err := activation.Put(st, streams.DoActivatePolicy, policy.Default); err != nil {
			return err
		}
		o.ready[p] = true
	}
	for i, step := range s.Steps {
		body, err := streams.Marshal(step.Event)
		if err != nil {
			return err
		}
		o.seq++
		m := &stage.Message{Seq: o.seq, Time: streams.HeadOf(step.Event).Time, Data: body,
			Address: streams.Address{Project: s.Project, Agent: streams.ReplayAgent, Kind: step.Kind, Origin: step.Origin}}
		ad, err := o.fold.Admit(st, m)
		if err != nil {
			return fmt.Errorf("session %s, step %d: %w", s.Name, i, err)
		}
		e := &streams.Entry{Seq: o.seq, Time: m.Time, Partition: p, Stage: streams.StageIngest, Type: ad.Type,
			Project: ad.Project, Src: o.seq, Body: ad.Body}
		if err := o.fold.Apply(st, e, ad.Decided); err != nil {
			return fmt.Errorf("session %s, step %d: %w", s.Name, i, err)
		}
		if err := o.f(e); err != nil {
			return err
		}
	}
	return nil
}
