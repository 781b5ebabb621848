package text

import (
	"encoding/base64"
	"slices"
	"testing"
)

func TestAnAccessKeyIDAloneIsNoSecret(t *testing.T) {
	const id, key = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	const signed = "https://b1.s3.amazonaws.com/a/r.csv?X-Amz-Credential=" + id + "%2F20260101%2Feu-west-1%2Fs3%2F" +
		"aws4_request&X-Amz-Security-Token=IQoJb3JpZ2luX2VjEJr%2F%2F%2F%2F%2F%2F%2F%2F%2F%2FwEaCXVzLWVhc3QtMSJHMEUCIQ" +
		"&X-Amz-Signature=fe5f80f77d5fa3beca038a248ff027d0445342fe2855ddc963176630326f1024"
	for _, in := range []string{
		id, "The key " + id + " belongs to the role builds.", signed, "curl '" + signed + "' -o r.csv",
		`{"Credential": "ASIAIOSFODNN7EXAMPLE/20260101/eu-west-1/s3/aws4_request"}`,
		"https://b1.s3.amazonaws.com/r.csv?AWSAccessKeyId=" + id + "&Expires=1767225600&Signature=vjbyPxybdZaNmGa%2ByT272YEAiv4%3D",
		id + " signed commit 16c7e42f292c6912e7710c838347ae178b4a0001",
	} {
		if hasSecret(in) {
			t.Errorf("%s: a secret among %q", in, carriersOf(in))
		}
	}
	for _, in := range []string{
		id + " " + key, key + "\n\n" + id, id + ":" + key, id + key, "https://e1.example/" + id + "/" + key + "/logo.png",
		`{"AccessKeyId": "` + id + `", "Other": "x", "SecretAccessKey": "` + key + `"}`,
		"AWS_SECRET_ACCESS_KEY=" + key, "aws_secret_access_key = " + key, `"secretAccessKey": "` + key + `"`,
		"https://e1.example/?i=" + id + "&k=wJalrXUtnFEMI%2FK7MDENG%2FbPxRfiCYEXAMPLEKEY",
		signed + "&k=wJalrXUtnFEMI%2FK7MDENG%2FbPxRfiCYEXAMPLEKEY",
		id + " " + base64.StdEncoding.EncodeToString([]byte("the key is "+key)),
	} {
		if !hasSecret(in) {
			t.Errorf("%s: no secret among %q", in, carriersOf(in))
		}
	}
	in := "id " + id + ", key " + key + "."
	if got := Mask(in, CarrierSpans(in, Secret)); got != "id [masked], key [masked]." {
		t.Error(got)
	}
	if in = "id " + id + "."; len(CarrierSpans(in, Secret)) > 0 {
		t.Error("the span of an ID without a key is one of a secret")
	}
}

func TestSignedURLsAreFound(t *testing.T) {
	hosts := func(s string) (all []string) {
		for _, host := range SignedURLs(s) {
			all = append(all, host)
		}
		return all
	}
	for in, want := range map[string][]string{
		"https://B1.s3.example/r?X-Amz-Signature=fe5f80f77d5fa3beca038a248ff027d0":                                {"b1.s3.example"},
		"(see https://a.example:8443/r?sp=r&sig=Z%2FRHIX5Xcg0Mq2rqI3OlWTjEg2tYkboXr1P9ZUXDtkk%3D).":               {"a.example"},
		"https://a.example/r?Expires=1&Signature=vjbyPxybdZaNmGa%2ByT272YEAiv4%3D https://b.example":              {"a.example"},
		"https://e.example/?u=https://a.example/r?x=1%26X-Goog-Signature=247a2aa45f169edf4d187d54e7cc46e4":        {"a.example"},
		"https://a.example/r?signature=required https://a.example/sig?q=sig https://a.example/?sig=short":         nil,
		"https://u:p@a.example/r?X-Goog-Signature=247a2aa45f169edf4d187d54e7cc46e4731b1e6273242c4f4c39a1d2507a#f": {"a.example"},
	} {
		if got := hosts(in); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func TestAnAccessKeyIDIsFound(t *testing.T) {
	for s, want := range map[string]bool{
		"AKIAIOSFODNN7EXAMPLE": true, "/AKIAIOSFODNN7EXAMPLE/x": true, "id=ASIAIOSFODNN7EXAMPLE&k": true,
		"AKIAIOSFODNN7EXAMPLEX": false, "xAKIAIOSFODNN7EXAMPLE": false, "AKIAIOSFODNN7EXAMPL": false,
		"AKIAiosfodnn7example": false, "": false,
	} {
		if HasAccessKeyID(s) != want {
			t.Errorf("%q: want %v", s, want)
		}
	}
}
