use super::*;

fn why(path: &Path) -> String {
    let error = open(path).unwrap_err();
    assert!(NotRegular::is_why(&error), "{error}");
    assert_eq!(metadata(path).unwrap_err().to_string(), error.to_string());
    error.to_string()
}

#[test]
fn only_regular_files_are_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    fs::write(&path, "text").unwrap();
    assert_eq!(read_text(&path, 4).unwrap(), "text");
    assert_eq!(why(folder.path()), "it is a folder, not a regular file");
    assert_eq!(open(folder.path().join("b")).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[cfg(unix)]
#[test]
fn pipes_devices_and_links_to_them_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
    let socket = folder.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert_eq!(why(&pipe), "it is a pipe, not a regular file");
    assert_eq!(why(&link), "it is a device, not a regular file");
    assert_eq!(why(Path::new("/dev/null")), "it is a device, not a regular file");
    assert_eq!(why(&socket), "it is a socket, not a regular file");
}

#[cfg(unix)]
#[test]
fn a_pipe_is_written_into_if_somebody_reads() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
    let error = open_special(&pipe).unwrap_err();
    assert_eq!(error.to_string(), "no process reads from it");
    let path = pipe.clone();
    let reader = thread::spawn(move || fs::read(path).unwrap());
    let mut file = open_special(&pipe).unwrap();
    // More than fits into a pipe.
    io::Write::write_all(&mut file, &vec![b'x'; 1 << 18]).unwrap();
    drop(file);
    assert_eq!(reader.join().unwrap().len(), 1 << 18);
}

#[test]
fn what_is_longer_than_asked_for_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    fs::write(&path, "12345").unwrap();
    assert_eq!(read(&path, 5).unwrap(), b"12345");
    assert_eq!(read(&path, 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    fs::write(&path, b"\xff").unwrap();
    assert_eq!(read_text(&path, 4).unwrap_err().kind(), io::ErrorKind::InvalidData);
}
