package verb

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestASignatureThatThePipelineWouldRefuseIsNotMade(t *testing.T) {
	for in, ok := range map[string]bool{"10m": true, "24h": true, "24h1s": false, "48h": false, "0s": false, "-1m": false,
		"soon": false} {
		var life time.Duration
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		SignatureLife(f, &life)
		if err := f.Parse([]string{"--expires", in}); (err == nil) != ok {
			t.Errorf("%s: %v, %v", in, life, err)
		}
	}
}
