package verb

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/cli"
	"lazaret/internal/embedded"
	"lazaret/internal/ingest"
	"lazaret/internal/query"
	"lazaret/pkg/keys"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// Activate returns a command that signs and activates a bundle.
func (a *App) Activate(use, short, do string, load func(args []string) ([]byte, error)) *cobra.Command {
	var key string
	c := &cobra.Command{Use: use, Short: short, Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := load(args)
			if err != nil {
				return &cli.Exit{Code: cli.ExitNegative, Text: err.Error()}
			}
			o, err := a.OpenOperator(key, false)
			if err != nil {
				return err
			}
			defer o.Nc.Close()
			return o.PutInForce(cmd, do, b)
		}}
	c.Flags().StringVar(&key, "key", "", "operator's key `FILE` (default the data folder's)")
	return c
}

// Operator signs and publishes commands.
type Operator struct {
	Nc         *nats.Conn
	signer     note.Signer
	Timeout    time.Duration
	rejections *nats.Subscription // ingest's rejections of commands
}

// OpenOperator connects with the operator's key and credential. A lasting connection reconnects after
// restarts of the server.
func (a *App) OpenOperator(key string, lasting bool) (*Operator, error) {
	a.Conn.Resolve()
	if key == "" {
		key = embedded.OperatorKey(a.Conn.Data)
	}
	signer, err := keys.LoadSigner(key)
	if err != nil {
		return nil, err
	}
	var opts []nats.Option
	if lasting {
		opts = []nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(500 * time.Millisecond)}
	}
	nc, err := a.Conn.Connect("operator", opts...)
	if err != nil {
		return nil, err
	}
	return &Operator{Nc: nc, signer: signer, Timeout: a.Conn.Timeout}, nil
}

// Publish publishes a bundle and the signed command that activates it.
func (o *Operator) Publish(ctx context.Context, do string, bundle []byte) error {
	if o.rejections == nil {
		sub, err := o.Nc.SubscribeSync("lz.live." + streams.SystemProject + ".rejected")
		if err != nil {
			return err
		}
		o.rejections = sub
	}
	o.refusals() // discard earlier rejections
	return embedded.Activate(ctx, o.Nc, o.signer, do, bundle)
}

// PutInForce publishes a bundle and waits until it is active in every partition. If the wait is
// interrupted, the activation may still succeed.
func (o *Operator) PutInForce(cmd *cobra.Command, do string, bundle []byte) error {
	if err := o.Publish(cmd.Context(), do, bundle); err != nil {
		return err
	}
	if err := o.Await(cmd.Context(), do, bundle, cmd.ErrOrStderr()); err != nil {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout(), "in force:", streams.Digest(bundle))
	return nil
}

// silent is how long Await waits for a partition that does not reply.
const silent = 30 * time.Second

// Await waits until a published bundle is active in every partition, without a time limit, and writes
// the progress to w. It returns an error if the command is refused or a partition does not reply.
func (o *Operator) Await(ctx context.Context, do string, bundle []byte, w io.Writer) error {
	digest := streams.Digest(bundle)
	said, heard := time.Now(), time.Now()
	for p := 0; p < streams.Partitions; {
		var now ingest.ActiveAnswer
		err := query.Ask(ctx, o.Nc, ingest.AskActive, p, struct{}{}, &now)
		if err == nil {
			heard = time.Now()
		}
		if is := map[string]string{streams.DoActivateRules: now.Rules, streams.DoActivatePolicy: now.Policy,
			streams.DoActivateTrust: now.Trust}[do]; is == digest {
			p++
			continue
		}
		if refused := o.refusals(); refused != "" {
			return &cli.Exit{Code: cli.ExitNegative, Text: "refused: " + refused}
		}
		switch {
		case ctx.Err() != nil:
			return &cli.Exit{Code: cli.ExitIncomplete,
				Text: fmt.Sprintf("published, and in force in %d of %d partitions; the others follow when ingest reaches it: "+
					"lazaret doctor shows it", p, streams.Partitions)}
		case time.Since(heard) > silent:
			return &cli.Exit{Code: cli.ExitIncomplete,
				Text: fmt.Sprintf("published, and in force in %d of %d partitions; ingest does not answer for partition %d (%v): "+
					"ingest will activate it there when it runs again", p, streams.Partitions, p, err)}
		case time.Since(said) > 2*time.Second:
			said = time.Now()
			fmt.Fprintf(w, "in force in %d of %d partitions; ingest still works on earlier messages\n", p, streams.Partitions)
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// refusals returns a text with the first rejection of a command since the bundle was published, and the
// number of rejections. It returns "" if there are none.
func (o *Operator) refusals() string {
	said, n := "", 0
	for {
		m, err := o.rejections.NextMsg(time.Millisecond)
		if err != nil {
			break
		}
		var r streams.RejectedEntry
		if streams.Unmarshal(m.Data, &r) != nil {
			continue
		}
		if n++; n == 1 {
			said = fmt.Sprintf("%s: %s", r.Code, text.InertLine(r.Reason, 600))
		}
	}
	if n > 1 {
		said += fmt.Sprintf(" (and %d more)", n-1)
	}
	return said
}
