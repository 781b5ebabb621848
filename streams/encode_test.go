package streams

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"lazaret/pkg/text"
)

// fill sets about half of the fields of a value to random values that are not zero.
func fill(r *rand.Rand, v reflect.Value, most int) {
	if r.IntN(2) == 0 && v.Kind() != reflect.Struct {
		return
	}
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = time.Unix(r.Int64N(1<<38)-1<<36, int64(r.IntN(3))*r.Int64N(1e9)).In(
			time.FixedZone("", (r.IntN(3)-1)*r.IntN(16*3600)))
		return
	case *text.Sketch:
		x[r.IntN(len(x))] = uint16(r.Uint32())
		return
	}
	if v.Type().ConvertibleTo(reflect.TypeFor[[]byte]()) && v.Type().Name() == "Value" {
		v.SetBytes([]byte([]string{`{ "b" : 1.50, "a" : "\u003c" }`, `[1,  2]`, `"x"`, `{"a":1,"a":2}`, `{`}[r.IntN(5)]))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("json") != "-" {
				fill(r, v.Field(i), most)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(r, v.Elem(), most)
	case reflect.Slice:
		n := r.IntN(most + 1)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(r, v.Index(i), most/2)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(r, v.Index(i), most)
		}
	case reflect.String:
		v.SetString([]string{"", "plain", "a \"quoted\" \\ text\n\t", "Größe 日本語 \u2028 <b>&amp;</b>", "\x00\x1f\x7f", "😀",
			"\xff bad"}[r.IntN(7-r.IntN(2)*r.IntN(2))])
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(uint64(r.IntN(4)))
	case reflect.Uint16, reflect.Uint32:
		v.SetUint(uint64(r.Uint32()))
	case reflect.Uint64:
		v.SetUint(r.Uint64() >> 16)
	case reflect.Int, reflect.Int64:
		v.SetInt(r.Int64N(200) - 100)
	case reflect.Float64:
		v.SetFloat([]float64{0.1, 0.95, 1, 0.30000000000000004, 1e-7, 1e21, 123456.789, -0.5, 1e-6}[r.IntN(9)])
	default:
		panic(fmt.Sprint("no value for ", v.Type()))
	}
}

// The encoder of observations must write the same bytes as the codec. It must leave values that it cannot encode to the
// codec. This test fails if somebody adds a field to a body and not to the encoder.
func TestObservationsAreEncodedAsByTheCodec(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	encoded, refused := 0, 0
	for n := range 8000 {
		var e ObservationEntry
		fill(r, reflect.ValueOf(&e).Elem(), 1+n%4)
		for i := range e.Blocks {
			if b := &e.Blocks[i]; r.IntN(2) == 0 {
				b.Encoded = EncodeBlock(b.Text, &b.Features)
			}
		}
		want, err := json.Marshal(&e, codecOptions)
		got := encode(&e)
		switch {
		case got != nil && err != nil:
			t.Fatalf("%+v\nis encoded as %s\nand the codec refuses it: %v", e, got, err)
		case got != nil && !bytes.Equal(got, want):
			t.Fatalf("%+v\nis encoded as %s\n             and not %s", e, got, want)
		case got != nil:
			encoded++
		case err == nil:
			t.Fatalf("%+v\nis not encoded as %s", e, want)
		default:
			refused++
		}
		if err != nil {
			want = nil // on an error, the codec returns a part of the encoding, and Marshal nothing
		}
		if all, alsoErr := Marshal(&e); !bytes.Equal(all, want) || fmt.Sprint(err) != fmt.Sprint(alsoErr) {
			t.Fatalf("%+v\nis encoded as %s, %v\n             and not %s, %v", e, all, alsoErr, want, err)
		}
	}
	if encoded < 1000 || refused < 1000 {
		t.Errorf("%d entries were encoded and %d refused", encoded, refused)
	}
}
