package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// Storage has the settings of the streams that an installation chooses.
type Storage struct {
	// Replicas is the number of replicas of each stream: 1 embedded, 3 on a cluster. Zero means 1.
	Replicas int
	// LedgerBytes is the maximum size of the ledger. When it is full, stages stop and publishers
	// are refused. Zero means that only the disk limits it.
	LedgerBytes int64
	// IntakeBytes is the maximum size of the intake. When it is full, publishers are refused. Zero
	// means streams.IntakeBytes.
	IntakeBytes int64
	// IntakePerSubject is the maximum number of waiting messages on one stored subject. Zero means
	// streams.IntakePerSubject.
	IntakePerSubject int64
	// IntakePerAgent is the maximum size of the messages of one agent that wait for ingest. Zero means an
	// eighth of the intake's size (AgentBytes).
	IntakePerAgent int64
	// LiveBytes is the maximum size of the live feed. Old copies are removed first. Zero means
	// streams.LiveBytes.
	LiveBytes int64
}

// Definitions returns the configurations of the three streams.
func Definitions(s Storage) []jetstream.StreamConfig {
	s.Replicas = cmp.Or(s.Replicas, 1)
	s.LedgerBytes = cmp.Or(s.LedgerBytes, -1)
	s.IntakeBytes = cmp.Or(s.IntakeBytes, streams.IntakeBytes)
	s.LiveBytes = cmp.Or(s.LiveBytes, streams.LiveBytes)
	s.IntakePerSubject = cmp.Or(s.IntakePerSubject, streams.IntakePerSubject)
	var metadata map[string]string
	if s.IntakePerAgent > 0 {
		metadata = map[string]string{perAgent: strconv.FormatInt(s.IntakePerAgent, 10)}
	}
	return []jetstream.StreamConfig{
		{
			Name:        streams.IntakeStream,
			Metadata:    metadata,
			Description: "what clients published and ingest has not decided on yet",
			// Clients publish without a partition; the transform inserts it.
			// Control subjects do not match the transform, so they are stored unchanged.
			Subjects: []string{streams.IntakePrefix + "*.*.>", streams.ControlPrefix + "*"},
			SubjectTransform: &jetstream.SubjectTransformConfig{
				Source: streams.IntakePrefix + "*.*.>",
				Destination: fmt.Sprintf("%s{{partition(%d,1)}}.{{wildcard(1)}}.{{wildcard(2)}}.>", streams.IntakePrefix,
					streams.Partitions),
			},
			Retention:            jetstream.LimitsPolicy,
			Discard:              jetstream.DiscardNew,
			DiscardNewPerSubject: true,
			MaxMsgsPerSubject:    s.IntakePerSubject,
			MaxBytes:             s.IntakeBytes,
			MaxMsgSize:           streams.IntakeMsgSize,
			Storage:              jetstream.FileStorage,
			Replicas:             s.Replicas,
			AllowDirect:          true,
			AllowAtomicPublish:   true,
			// The server's deduplication by message id is per stream. Event ids are unique only per
			// project and agent, so nothing uses the server's deduplication.
			Duplicates: time.Second,
		},
		{
			Name:               streams.LedgerStream,
			Description:        "the entries that the stages made, each stage on a subject of its own",
			Subjects:           []string{streams.LedgerPrefix + "*.*"},
			Retention:          jetstream.LimitsPolicy,
			Discard:            jetstream.DiscardNew,
			MaxBytes:           s.LedgerBytes,
			MaxMsgSize:         streams.LedgerMsgSize,
			Storage:            jetstream.FileStorage,
			Replicas:           s.Replicas,
			AllowDirect:        true,
			AllowAtomicPublish: true,
			Duplicates:         time.Second,
		},
		{
			Name:        streams.LiveStream,
			Description: "best-effort copies for people and SIEMs",
			Subjects:    []string{streams.LivePrefix + ">"},
			Retention:   jetstream.LimitsPolicy,
			Discard:     jetstream.DiscardOld,
			MaxAge:      streams.LiveAge,
			MaxBytes:    s.LiveBytes,
			Storage:     jetstream.FileStorage,
			Replicas:    s.Replicas,
			AllowDirect: true,
			Duplicates:  time.Second,
			PersistMode: livePersist(s.Replicas),
		},
	}
}

// perAgent is the key of Storage.IntakePerAgent in the intake's metadata.
const perAgent = "lazaret.bytes-per-agent"

// AgentBytes returns how many bytes of one agent's messages may wait in the intake: the number in
// the metadata of the stream, or an eighth of the stream's size if there is none. JetStream has no
// such limit. Ingest rejects the messages beyond it.
func AgentBytes(intake *jetstream.StreamConfig) int64 {
	n, err := strconv.ParseInt(intake.Metadata[perAgent], 10, 64)
	if err != nil || n <= 0 {
		most := intake.MaxBytes
		if most <= 0 {
			most = streams.IntakeBytes
		}
		n = most / 8
	}
	return max(n, streams.LeastPerAgent)
}

// livePersist returns how the live feed is written to disk. It is asynchronous, because the ledger
// has the originals and no verdict should wait for a sync of copies. A stream with replicas cannot
// be asynchronous.
func livePersist(replicas int) jetstream.PersistModeType {
	if replicas > 1 {
		return jetstream.DefaultPersistMode
	}
	return jetstream.AsyncPersistMode
}

// DriftError reports a stream whose settings differ from its definition. Ensure does not correct the
// settings, because the stream holds evidence and someone may have changed them for a reason.
type DriftError struct {
	Stream string
	Diffs  []string // "setting: is X, want Y"
}

func (e *DriftError) Error() string {
	return fmt.Sprintf("stream %s differs from its definition (%s): change it back with `nats stream edit`, or see "+
		"deploy/README.md",
		e.Stream, strings.Join(e.Diffs, "; "))
}

// Ensure creates the streams that do not exist and compares the existing ones with their
// definitions. It returns a *DriftError for a difference and does not correct it.
func Ensure(ctx context.Context, js jetstream.JetStream, s Storage) error {
	var all []error
	for _, want := range Definitions(s) {
		st, err := js.Stream(ctx, want.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			if _, err = js.CreateStream(ctx, want); err != nil {
				return fmt.Errorf("creating stream %s: %w", want.Name, err)
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("looking up stream %s: %w", want.Name, err)
		}
		if d := Drift(st.CachedInfo().Config, want); len(d) > 0 {
			all = append(all, &DriftError{Stream: want.Name, Diffs: d})
		}
	}
	return errors.Join(all...)
}

// Check compares existing streams with their definitions and creates nothing. Replicas and limits
// are chosen by the operator and are not compared, except that the intake must have a limit per
// subject.
func Check(ctx context.Context, js jetstream.JetStream) error {
	var all []error
	for _, want := range Definitions(Storage{}) {
		st, err := js.Stream(ctx, want.Name)
		if err != nil {
			all = append(all, fmt.Errorf("stream %s: %w", want.Name, err))
			continue
		}
		got := st.CachedInfo().Config
		want.Replicas, want.MaxBytes = got.Replicas, got.MaxBytes
		if want.MaxMsgsPerSubject > 0 && got.MaxMsgsPerSubject > 0 {
			want.MaxMsgsPerSubject = got.MaxMsgsPerSubject
		}
		if d := Drift(got, want); len(d) > 0 {
			all = append(all, &DriftError{Stream: want.Name, Diffs: d})
		}
	}
	return errors.Join(all...)
}

// Drift lists the settings that differ between two configurations, in a fixed order. It ignores
// settings that Lazaret does not depend on.
func Drift(got, want jetstream.StreamConfig) []string {
	var d []string
	cmp := func(name string, g, w any) {
		if gs, ws := fmt.Sprint(g), fmt.Sprint(w); gs != ws {
			d = append(d, fmt.Sprintf("%s: is %s, want %s", name, gs, ws))
		}
	}
	limit := func(n int64) any {
		if n <= 0 {
			return "unlimited"
		}
		return n
	}
	transform := func(t *jetstream.SubjectTransformConfig) string {
		if t == nil {
			return "none"
		}
		return t.Source + " → " + t.Destination
	}
	cmp("subjects", got.Subjects, want.Subjects)
	cmp("subject transform", transform(got.SubjectTransform), transform(want.SubjectTransform))
	cmp("retention", got.Retention, want.Retention)
	cmp("discard", got.Discard, want.Discard)
	cmp("discard new per subject", got.DiscardNewPerSubject, want.DiscardNewPerSubject)
	cmp("max messages per subject", limit(got.MaxMsgsPerSubject), limit(want.MaxMsgsPerSubject))
	cmp("max bytes", limit(got.MaxBytes), limit(want.MaxBytes))
	cmp("max age", got.MaxAge, want.MaxAge)
	cmp("max message size", limit(int64(got.MaxMsgSize)), limit(int64(want.MaxMsgSize)))
	cmp("storage", got.Storage, want.Storage)
	cmp("replicas", got.Replicas, want.Replicas)
	cmp("atomic publish", got.AllowAtomicPublish, want.AllowAtomicPublish)
	cmp("direct get", got.AllowDirect, want.AllowDirect)
	cmp("sealed", got.Sealed, false)
	cmp("republish", got.RePublish != nil, false)
	cmp("mirror", got.Mirror != nil, false)
	cmp("sources", len(got.Sources), 0)
	cmp("max messages", limit(got.MaxMsgs), limit(want.MaxMsgs))
	return d
}

// JetStream returns the JetStream interface of a connection. jetstream.New fails only for invalid options.
func JetStream(nc *nats.Conn) jetstream.JetStream {
	js, err := jetstream.New(nc)
	if err != nil {
		panic(err) // there are no options
	}
	return js
}
