use super::*;

#[test]
fn the_usual_form_means_what_the_calendar_says() {
    let mut rng = testkit::Rng::new(12);
    for _ in 0..20_000 {
        let mut part = |end: usize| rng.below(end);
        let text = format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
            1 + part(3_000),
            part(14),
            part(33),
            part(26),
            part(62),
            part(62),
            part(1_000)
        );
        let known = text.parse::<Timestamp>().ok().map(|moment| Time(moment.as_millisecond()));
        let quoted = format!("\"{text}\"");
        let read = Json::parse(quoted.as_bytes()).and_then(Time::read);
        assert_eq!(read, known, "{text}");
    }
}
