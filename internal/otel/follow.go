package otel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"lazaret/internal/wire"
	"lazaret/streams"
)

// Config configures Run.
type Config struct {
	Options
	Conn   *nats.Conn       // with a credential that may read the ledger
	Client otlptrace.Client // Run starts and stops it
	// State is the file that stores the progress; if empty, it is not stored.
	State string
	// All starts with the first entry if there is no State file. By default Run starts with the next
	// entry.
	All bool
	// From is the ledger sequence of the first entry to read. Sensitivity labels in earlier entries are then
	// unknown.
	From uint64
	// Once stops at the end of the ledger instead of following it.
	Once     bool
	Resource *resourcepb.Resource
	Log      *slog.Logger
	// Sent, if set, is called with the number of spans that the receiver accepted.
	Sent func(int)
}

const (
	poll     = 250 * time.Millisecond // interval of checks for new entries
	maxBatch = 512                    // spans in one request
	lastTry  = 5 * time.Second        // timeout for the last spans at the end
)

// backOff are the pauses after failed uploads, in addition to the client's own retries.
var backOff = []time.Duration{time.Second, 5 * time.Second, 30 * time.Second}

// progress is the content of State.
type progress struct {
	Seq   uint64           `json:"seq"` // entries up to here were exported
	Open  map[string]*open `json:"open,omitzero"`
	Order []string         `json:"order,omitzero"`
	Await []string         `json:"await,omitzero"`
}

// Run follows the ledger and sends spans until ctx ends, or with Once until the end of the ledger. It retries
// while the receiver or the NATS server is unreachable.
func Run(ctx context.Context, cfg Config) (err error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := cfg.Client.Start(ctx); err != nil {
		return fmt.Errorf("starting the exporter: %w", err)
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.Background(), lastTry)
		defer cancel()
		err = errors.Join(err, cfg.Client.Stop(stop))
	}()
	s := &sender{Config: cfg, reader: &wire.Reader{Conn: cfg.Conn}}
	s.fold = NewFold(cfg.Options, s.reader.Read)
	last, err := s.reader.Last(ctx)
	if err != nil {
		return err
	}
	if err := s.resume(last); err != nil {
		return err
	}
	// Read the earlier entries for their labels first: a later entry's label depends on them.
	for at := s.before(); at < s.seq; {
		es, err := s.reader.After(ctx, at)
		if err != nil {
			return ended(ctx, err)
		}
		if len(es) == 0 {
			break
		}
		for _, e := range es {
			if at = e.Seq; at <= s.seq {
				s.fold.Skip(e)
			}
		}
	}
	return ended(ctx, s.follow(ctx))
}

func (s *sender) before() uint64 { return max(s.From, 1) - 1 }

// ended returns nil if ctx has ended, otherwise err.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// sender is the state of Run's loop.
type sender struct {
	Config
	reader *wire.Reader
	fold   *Fold
	seq    uint64 // last exported sequence
	wait   []*tracepb.Span
	saved  uint64
}

// resume sets the position from the state file.
func (s *sender) resume(last uint64) error {
	s.seq = last
	if s.All {
		s.seq = s.before()
	}
	if s.State == "" {
		return nil
	}
	b, err := os.ReadFile(s.State)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var p progress
	if err := streams.Unmarshal(b, &p); err != nil {
		return fmt.Errorf("%s: %w: remove the file to start without a saved position", s.State, err)
	}
	if p.Seq > last {
		return fmt.Errorf("%s: entry %d was sent, but the ledger ends at %d, so it is another ledger: remove "+
			"the file to start without a saved position", s.State, p.Seq, last)
	}
	s.seq, s.saved = p.Seq, p.Seq
	for _, key := range p.Order {
		if o := p.Open[key]; o != nil {
			s.fold.note(key, o)
		}
	}
	s.fold.await = p.Await
	return nil
}

func (s *sender) follow(ctx context.Context) error {
	for {
		es, err := s.reader.After(ctx, s.seq)
		if err != nil {
			if ctx.Err() != nil || s.Once {
				return s.stop(err)
			}
			s.Log.Warn("the ledger cannot be read, trying again", "err", err)
			if !sleep(ctx, time.Second) {
				return s.stop(nil)
			}
			continue
		}
		for i, e := range es {
			spans, err := s.fold.Take(e)
			if away := (*wire.ReadError)(nil); errors.As(err, &away) {
				s.Log.Warn("the ledger cannot be read, trying again", "err", err)
				if s.Once {
					return s.stop(err)
				}
				if !sleep(ctx, time.Second) {
					return s.stop(nil)
				}
				break // the entry is read again
			}
			if err != nil {
				// Take fails for an entry that another program or a later version wrote. The entry gets no span.
				s.Log.Warn("a ledger entry was not exported", "seq", e.Seq, "err", err)
			}
			s.wait, s.seq = append(s.wait, spans...), e.Seq
			last := i+1 == len(es) || es[i+1].Seq != e.Seq // messages are exported as a whole
			if last && len(s.wait) >= maxBatch && !s.send(ctx) {
				return s.stop(nil)
			}
		}
		if len(es) > 0 {
			continue
		}
		now := time.Now()
		if s.Once {
			now = now.Add(time.Hour) // do not wait for outcomes
		}
		due, err := s.fold.Due(now)
		if err != nil {
			s.Log.Warn("a tool execution was not exported", "err", err)
		}
		s.wait = append(s.wait, due...)
		if !s.send(ctx) {
			return s.stop(nil)
		}
		if s.Once || !sleep(ctx, poll) {
			return s.stop(nil)
		}
	}
}

// stop tries once to send the pending spans when the loop ends.
func (s *sender) stop(err error) error {
	if len(s.wait) == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastTry)
	defer cancel()
	if uerr := s.upload(ctx); uerr != nil {
		s.Log.Warn("some spans were not sent; they will be sent at the next start", "spans", len(s.wait), "err", uerr)
		return err
	}
	return errors.Join(err, s.save())
}

// send sends the pending spans, retrying until ctx ends, and saves the progress. It reports whether it
// succeeded.
func (s *sender) send(ctx context.Context) bool {
	for try := 0; len(s.wait) > 0; try++ {
		err := s.upload(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return false
		}
		s.Log.Warn("the receiver does not accept spans, trying again", "spans", len(s.wait), "err", err)
		if !sleep(ctx, backOff[min(try, len(backOff)-1)]) {
			return false
		}
	}
	if err := s.save(); err != nil {
		s.Log.Error("the progress cannot be saved: after a restart some spans are sent again", "err", err)
	}
	return true
}

func (s *sender) upload(ctx context.Context) error {
	n := len(s.wait)
	err := s.Client.UploadTraces(ctx, []*tracepb.ResourceSpans{{Resource: s.Resource,
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: "lazaret/internal/otel"},
			Spans: s.wait}}}})
	if err != nil {
		return err
	}
	s.wait = nil
	if s.Sent != nil {
		s.Sent(n)
	}
	return nil
}

// save writes the progress. It does not sync the file: after a crash, spans since the last save are
// sent again.
func (s *sender) save() error {
	if s.State == "" || s.seq == s.saved {
		return nil
	}
	b, err := streams.Marshal(progress{s.seq, s.fold.open, s.fold.order, s.fold.await})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.State), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(s.State+".new", b, 0o600); err != nil {
		return err
	}
	if err := os.Rename(s.State+".new", s.State); err != nil {
		return err
	}
	s.saved = s.seq
	return nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
