package probe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"lazaret/internal/auditor"
	"lazaret/internal/datafolder"
	"lazaret/internal/holds"
	"lazaret/internal/ingest"
	"lazaret/internal/inquiry"
	"lazaret/internal/natsserver"
	"lazaret/internal/otel"
	"lazaret/internal/query"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// This file has the steps that export data or publish with a role's credential, and the checks of what was exported.

// role connects with a role's credential.
func (s *site) role(r natsserver.Role) (*nats.Conn, error) {
	m, err := natsserver.OpenMinter(s.data)
	if err != nil {
		return nil, err
	}
	creds, err := m.Role(r)
	if err != nil {
		return nil, err
	}
	return s.connect(creds, string(r), r.InboxPrefix())
}

// inert is a body that has no effect on the server or a stage. It is neither empty nor JSON, so JetStream
// refuses it as a request.
var inert = []byte("a probe's attempt")

// attempt publishes with a role's credential and records whether the server permitted it.
func (p *play) attempt(ctx context.Context, st *Step, d *played) error {
	r := st.Attempt.Role
	if p.off != nil && p.off.Role[r] != "" {
		r = p.off.Role[r]
	}
	nc, err := p.site.role(natsserver.Role(r))
	if err != nil {
		return err
	}
	defer nc.Close()
	subject := strings.NewReplacer("$project", d.project, "$partition",
		strconv.Itoa(streams.PartitionOf(d.project))).Replace(st.Attempt.Subject)
	if err := nc.PublishRequest(subject, nc.NewRespInbox(), inert); err != nil {
		return err
	}
	d.permitted, err = permitted(ctx, nc)
	return err
}

// exported is the exported data.
type exported struct {
	text string
	// size and root are those of the exported tree; want is the root of the log.
	size       int64
	root, want string
}

// export exports the project's data.
func (p *play) export(ctx context.Context, st *Step, d *played) error {
	if err := p.settle(ctx, d.project); err != nil {
		return err
	}
	to := beliefs.Internal
	ceiling := st.Export.Ceiling
	if p.off != nil && p.off.Ceiling != "" {
		ceiling = p.off.Ceiling
	}
	if ceiling != "" {
		if err := to.UnmarshalText([]byte(ceiling)); err != nil {
			return err
		}
	}
	var err error
	if st.Export.As == "spans" {
		d.exported, err = p.spans(ctx, d.project, to)
	} else {
		d.exported, err = p.site.logTo(ctx, d.project, to)
	}
	return err
}

// capture is an OTLP client that stores the spans as text instead of sending them.
type capture struct{ text bytes.Buffer }

func (c *capture) Start(context.Context) error { return nil }
func (c *capture) Stop(context.Context) error  { return nil }
func (c *capture) UploadTraces(_ context.Context, spans []*tracepb.ResourceSpans) error {
	for _, s := range spans {
		b, err := proto.Marshal(s)
		if err != nil {
			return err
		}
		c.text.Write(b)
	}
	return nil
}

func (p *play) spans(ctx context.Context, project string, to beliefs.Sensitivity) (*exported, error) {
	nc, err := p.site.role(natsserver.RoleViewer)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	from := uint64(1)
	if es := p.site.ledger.entries(project); len(es) > 0 {
		from = es[0].Seq
	}
	c := new(capture)
	err = otel.Run(ctx, otel.Config{Options: otel.Options{Ceiling: to, Content: true, Project: project}, Conn: nc,
		Client: c, All: true, Once: true, From: from})
	return &exported{text: c.text.String()}, err
}

// logTo exports the log like `lazaret audit export`, once the log has all current ledger entries.
func (s *site) logTo(ctx context.Context, project string, to beliefs.Sensitivity) (out *exported, err error) {
	es := s.ledger.entries(project)
	if len(es) == 0 {
		return nil, fmt.Errorf("the ledger has no entry of %s", project)
	}
	var ans auditor.Answer
	for ans.LastSeq < es[len(es)-1].Seq || ans.Checkpoint == "" {
		if err := query.Ask(ctx, s.op, auditor.AskAudit, 0, auditor.Request{Do: "head"}, &ans); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the log does not have all ledger entries of %s and a checkpoint: %w", project, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	err = auditor.WithSnapshot(ctx, s.op, datafolder.AuditDir(s.data), func(dir string) error {
		out, err = s.exportOf(ctx, dir, to)
		return err
	})
	return out, err
}

// exportOf exports the log in a snapshot.
func (s *site) exportOf(ctx context.Context, dir string, to beliefs.Sensitivity) (_ *exported, err error) {
	trust, err := keys.LoadTrust(datafolder.TrustFile(s.data))
	if err != nil {
		return nil, err
	}
	master, err := datafolder.ReadMasterKey(s.data)
	if err != nil {
		return nil, err
	}
	l, err := inquiry.Open(ctx, dir, inquiry.Options{MasterKey: master, Verifiers: trust.Verifiers(keys.RoleAuditor)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	r, err := l.Ceiling(ctx, to)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w, err := inquiry.NewWriter("jsonl", &b)
	if err != nil {
		return nil, err
	}
	if err := l.Range(ctx, 0, l.Size(), nil, func(e *inquiry.Entry) error { r.Redact(e); return w.Write(e) }); err != nil {
		return nil, err
	}
	out := &exported{text: b.String(), want: l.Integrity().Root}
	x, err := inquiry.ReadExport(&b)
	if err != nil {
		return nil, err
	}
	root, err := x.Root(x.Size)
	out.size, out.root = x.Size, root.String()
	return out, err
}

func (p *play) harvest(ctx context.Context, st *Step, d *played) error {
	if err := p.settle(ctx, d.project); err != nil {
		return err
	}
	all, err := ingest.AllBeliefs(ctx, p.site.op, d.project)
	if err != nil {
		return err
	}
	var h ingest.Harvest
	if st.Lessons.Age != "" {
		if h.Age, err = time.ParseDuration(st.Lessons.Age); err != nil {
			return err
		}
	}
	d.lessons = ingest.Lessons(all, p.tick(d.project, st.after), h)
	return nil
}

func (p *play) reflect(ctx context.Context, d *played) error {
	if err := p.settle(ctx, d.project); err != nil {
		return err
	}
	all, err := ingest.AllBeliefs(ctx, p.site.op, d.project)
	if err != nil {
		return err
	}
	d.proposed = ingest.Reflect(all)
	if p.off == nil || p.off.Obey == "" {
		return nil
	}
	for _, s := range d.proposed {
		i := slices.IndexFunc(all, func(b ingest.Belief) bool { return b.ID == s.Belief })
		if err := p.obey(ctx, d.project, &all[i], s.Successor); err != nil {
			return err
		}
	}
	return nil
}

// obey signs a supersession with the key of Contrast.Obey. Only a person's key may sign one.
func (p *play) obey(ctx context.Context, project string, b *ingest.Belief, successor string) error {
	by := p.site.signers[p.off.Obey]
	if by == nil {
		return fmt.Errorf("unknown person %q: use %s or %s", p.off.Obey, alice, mallory)
	}
	sum := sha256.Sum256([]byte(b.Content))
	s := approval.BeliefStatement{Version: approval.BeliefVersion, Project: project, Belief: b.ID,
		Content: "sha256:" + hex.EncodeToString(sum[:]), Revision: b.Revision,
		Decision: approval.Supersede, Successor: successor,
		Expires: time.Now().UTC().Add(10 * time.Minute).Truncate(time.Second), Nonce: approval.NewNonce()}
	note, err := s.Sign(by)
	if err != nil {
		return err
	}
	_, err = holds.Attest(ctx, p.site.person, project, b.ID, note)
	return err
}

// checkSurfaces compares what was exported, harvested or proposed with the expectation.
func (p *play) checkSurfaces(st *Step, d *played) error {
	x := st.Expect
	if len(x.Exported)+len(x.NotExported) > 0 || x.Root {
		if d.exported == nil {
			p.fail(st, "nothing was exported")
			return nil
		}
		for _, part := range x.Exported {
			if !strings.Contains(d.exported.text, part) {
				p.fail(st, "the export does not contain %q", part)
			}
		}
		for _, part := range x.NotExported {
			if strings.Contains(d.exported.text, part) {
				p.fail(st, "the export contains %q", part)
			}
		}
		if x.Root && (d.exported.root != d.exported.want || d.exported.size == 0) {
			p.fail(st, "the export's tree of %d leaves has the root %s, the log's %s", d.exported.size, d.exported.root,
				d.exported.want)
		}
	}
	if x.Lessons != nil {
		want := map[string]bool{}
		for _, ref := range *x.Lessons {
			id, err := p.lookUp(ref)
			if err != nil {
				return err
			}
			want[id] = true
		}
		for _, l := range d.lessons {
			if !want[l.Belief] {
				p.fail(st, "%q became a lesson", l.Text)
			}
			delete(want, l.Belief)
		}
		for _, id := range slices.Sorted(maps.Keys(want)) {
			p.fail(st, "%s is not a lesson", id)
		}
	}
	if x.Proposed != nil {
		want := map[string]string{}
		for ref, by := range *x.Proposed {
			id, err := p.lookUp(ref)
			if err != nil {
				return err
			}
			if want[id], err = p.lookUp(by); err != nil {
				return err
			}
		}
		for _, s := range d.proposed {
			if want[s.Belief] != s.Successor {
				p.fail(st, "reflection proposes that %s replaces %s", s.Successor, s.Belief)
			}
			delete(want, s.Belief)
		}
		for _, id := range slices.Sorted(maps.Keys(want)) {
			p.fail(st, "reflection does not propose that %s replaces %s", want[id], id)
		}
	}
	return nil
}
