package embedded

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/stage"
	"lazaret/streams"
)

// Activate signs a command that activates a bundle, and publishes bundle and command to every partition
// in that order.
func Activate(ctx context.Context, nc *nats.Conn, signer note.Signer, do string, bundle []byte) error {
	return activateIn(ctx, nc, signer, do, bundle, stage.PartitionList(nil), false)
}

// activateIn is Activate for some partitions. If first is set, the command has an effect only where
// nothing is active when it arrives.
func activateIn(ctx context.Context, nc *nats.Conn, signer note.Signer, do string, bundle []byte, partitions []int,
	first bool) error {
	if len(partitions) == 0 {
		return nil
	}
	now := time.Now().UTC().Truncate(time.Second)
	digest := streams.Digest(bundle)
	cmd := streams.Command{Do: do, Digest: digest, Engine: streams.EngineVersion, ID: now.Format("20060102T150405Z") +
		"-" + digest[7:15], Issued: now, First: first}
	signed, err := cmd.Sign(signer)
	if err != nil {
		return fmt.Errorf("signing %s: %w", do, err)
	}
	controls, err := streams.Controls(bundle, signed)
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	for _, c := range controls {
		body, err := streams.Marshal(c)
		if err != nil {
			return err
		}
		for _, p := range partitions {
			if _, err := js.Publish(ctx, streams.ControlSubject(p), body); err != nil {
				return fmt.Errorf("publishing %s to partition %d: %w", do, p, err)
			}
		}
	}
	return nil
}
