package stage

import (
	"context"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// SetFormat changes the format number in a stored state.
func SetFormat(dir string, fs vfs.FS, format byte) error {
	s, err := openStore(dir, fs, nil)
	if err != nil {
		return err
	}
	if err := s.set(formatKey, []byte{format}); err != nil {
		return err
	}
	if err := s.commit(); err != nil {
		return err
	}
	return s.close()
}

// StateFormat is the current format.
const StateFormat = stateFormat

// TimeBefore returns the time of the last entry before seq. ranges are the sequences that an order to forget names.
func TimeBefore(ctx context.Context, js jetstream.JetStream, seq uint64, ranges ...streams.SeqRange) (time.Time, error) {
	return (&forgettings{ordered: []ordered{{ranges: ranges}}}).timeBefore(ctx, js, seq)
}

// PublishJoint publishes a joint frame.
func PublishJoint(ctx context.Context, j *Joint, entries []*streams.Entry, end, fence uint64) error {
	m, err := jointMsg(entries, end, fence)
	if err != nil {
		return err
	}
	return j.publish(ctx, m, end+1)
}

// Retired sets the age at which the last entry of a sentinel group of another process no longer counts.
func (j *Joint) Retired(age time.Duration) { j.retired = age }
