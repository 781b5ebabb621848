package embedded

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/stage"
	"lazaret/internal/wire"
	"lazaret/streams"
)

// Activate signs a command that activates a bundle: a trust file, a rule set or a policy, as do says. It publishes
// first the bundle and then the command to every partition.
func Activate(ctx context.Context, nc *nats.Conn, signer note.Signer, do string, bundle []byte) error {
	_, err := PublishActivation(ctx, nc, signer, do, bundle)
	return err
}

// PublishActivation does the same as Activate. It returns for each published command the partition, by the command's
// sequence in the intake. If ingest refuses a command, the rejection has this sequence.
func PublishActivation(ctx context.Context, nc *nats.Conn, signer note.Signer, do string,
	bundle []byte) (map[uint64]int, error) {
	return activateIn(ctx, nc, signer, do, bundle, stage.PartitionList(nil), false)
}

// activateIn does the same as PublishActivation, for the given partitions. If first is set, a command has an effect
// only in a partition in which nothing is active when the command arrives.
func activateIn(ctx context.Context, nc *nats.Conn, signer note.Signer, do string, bundle []byte, partitions []int,
	first bool) (map[uint64]int, error) {
	if len(partitions) == 0 {
		return nil, nil
	}
	now := time.Now().UTC().Truncate(time.Second)
	digest := streams.Digest(bundle)
	cmd := streams.Command{Do: do, Digest: digest, Engine: streams.EngineVersion, ID: now.Format("20060102T150405Z") +
		"-" + digest[7:15], Issued: now, First: first}
	signed, err := cmd.Sign(signer)
	if err != nil {
		return nil, fmt.Errorf("signing %s: %w", do, err)
	}
	controls, err := streams.Controls(bundle, signed)
	if err != nil {
		return nil, err
	}
	js := wire.JetStream(nc)
	sent := make(map[uint64]int, len(partitions))
	for _, c := range controls {
		body, err := streams.Marshal(c)
		if err != nil {
			return nil, err
		}
		for _, p := range partitions {
			ack, err := js.Publish(ctx, streams.ControlSubject(p), body)
			if err != nil {
				return nil, fmt.Errorf("publishing %s to partition %d: %w", do, p, err)
			}
			if c.Note != "" { // this is the command, not a chunk of the bundle
				sent[ack.Sequence] = p
			}
		}
	}
	return sent, nil
}
