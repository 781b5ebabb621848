// Package calibration compares the confidence that an agent stated for its actions with their recorded outcomes.
//
// A forecaster is calibrated if, of the actions with a confidence of 0.8, eight in ten succeed. The package computes
//
//   - the gap: mean confidence minus success rate. Above zero is over-confident.
//   - the Brier score: the mean squared difference between confidence and outcome (G. W. Brier,
//     Verification of forecasts expressed in terms of probability, Monthly Weather Review 78,
//     1950). 0 is perfect. Always saying 0.5 gives 0.25.
//   - the expected calibration error over ten bins of equal width: the mean over the bins of
//     |confidence - success rate|, each weighted with its share of the forecasts (M. P. Naeini,
//     G. F. Cooper, M. Hauskrecht, Obtaining well calibrated probabilities using Bayesian
//     binning, AAAI 2015; C. Guo et al., On calibration of modern neural networks, ICML 2017).
//
// An agent is over-confident if its gap is at least MaxGap and statistically significant. The test is Spiegelhalter's
// statistic, (Σ(c-y))² / Σc(1-c), above 1.645² (5 %) on the side of too much confidence (D. J. Spiegelhalter,
// Probabilistic prediction in patient management and clinical trials, Statistics in Medicine 5, 1986, in the form of a
// test of the mean).
//
// All computation is in integers, with confidences in hundredths of a percent. With floating-point numbers, the results
// could differ: some machines fuse two operations into one.
//
// It imports no other package of Lazaret. Begin reading with calibration.go; window.go keeps the latest forecasts.
package calibration
