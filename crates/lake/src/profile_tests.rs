use super::*;

/// What a home with these files says.
fn of(
    files: [&str; 2],
    variables: &[(&str, &str)],
) -> Result<Vec<(AmazonS3ConfigKey, String)>, LakeError> {
    let folder = tempfile::tempdir().expect("a folder");
    let aws = folder.path().join(".aws");
    std::fs::create_dir(&aws).expect("a folder");
    for (name, text) in ["config", "credentials"].iter().zip(files) {
        std::fs::write(aws.join(name), text).expect("a file");
    }
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let variables = variables.iter().map(pair).collect();
    let mut found = profile(&Surroundings { variables, home: Some(folder.path().to_owned()) })?;
    found.sort_by_key(|(key, _)| format!("{key:?}"));
    Ok(found)
}

fn wanted(list: &[(AmazonS3ConfigKey, &str)]) -> Vec<(AmazonS3ConfigKey, String)> {
    list.iter().map(|(key, value)| (*key, (*value).to_owned())).collect()
}

#[test]
fn a_profile_is_found_in_the_usual_files() {
    let config = "[default]\nregion = eu-west-1\n[profile team]\nregion=us-east-2\n\
                  services = x\n  endpoint_url = http://nested\nendpoint_url = http://127.0.0.1:9\n";
    let credentials = "# a comment\n[default]\naws_access_key_id = A\naws_secret_access_key = S\n\
                       [team]\naws_access_key_id = T\n; another\naws_session_token = X=Y\n";
    let found = |variables: &[(&str, &str)]| of([config, credentials], variables).expect("known");
    let default = wanted(&[(AccessKeyId, "A"), (Region, "eu-west-1"), (SecretAccessKey, "S")]);
    assert_eq!(found(&[]), default);
    let team = wanted(&[
        (AccessKeyId, "T"),
        (Endpoint, "http://127.0.0.1:9"),
        (Region, "us-east-2"),
        (Token, "X=Y"),
    ]);
    assert_eq!(found(&[("AWS_PROFILE", "team")]), team);
    let missing = of([config, credentials], &[("AWS_PROFILE", "nobody")]).expect_err("unknown");
    assert!(missing.to_string().contains("`nobody`"), "{missing}");
    assert_eq!(of(["", ""], &[]).expect("nothing is named"), []);
}

#[test]
fn credentials_of_several_places_are_not_mixed() {
    let config = "[default]\nregion = eu-west-1\naws_access_key_id = C\n\
                  aws_secret_access_key = D\naws_session_token = old\n";
    let credentials = "[default]\naws_access_key_id = A\naws_secret_access_key = S\n";
    let both = of([config, credentials], &[]).expect("known");
    assert_eq!(both, wanted(&[(AccessKeyId, "A"), (Region, "eu-west-1"), (SecretAccessKey, "S")]));
    let alone = of([config, ""], &[]).expect("known");
    assert_eq!(
        alone,
        wanted(&[
            (AccessKeyId, "C"),
            (Region, "eu-west-1"),
            (SecretAccessKey, "D"),
            (Token, "old")
        ])
    );
    let variables = [("AWS_ACCESS_KEY_ID", "V"), ("AWS_SECRET_ACCESS_KEY", "W")];
    assert_eq!(
        of([config, credentials], &variables).expect("known"),
        wanted(&[(Region, "eu-west-1")])
    );
}
