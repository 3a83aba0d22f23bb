"""Folders of others: what is below an allowed prefix, and nothing else, as it was found."""

import os
from pathlib import Path

import pytest

from app.errors import ConflictError, InvalidRequestError, NotFoundError
from app.storage.locations import Locations, open_unchanged


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("allowed/day", "other", "allowed-not"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "b.parquet").write_bytes(b"bb")
        (tmp_path / name / "a.parquet").write_bytes(b"a")
    return tmp_path


def test_the_parquet_files_of_a_folder_are_found_in_order(root: Path) -> None:
    folder = root / "allowed" / "day"
    for name in ("_SUCCESS", "_c.parquet", ".d.parquet", "e.csv"):
        (folder / name).write_bytes(b"x")
    (folder / "f.parquet").mkdir()
    (folder / "g.parquet").symlink_to(root / "other" / "a.parquet")
    os.mkfifo(folder / "h.parquet")
    found = Locations([str(root / "allowed")]).files(f"{folder}/")
    assert [(file.address, file.size) for file in found] == [
        (str(folder / "a.parquet"), 1),
        (str(folder / "b.parquet"), 2),
    ]
    with open_unchanged(found[1]) as file:
        assert file.read() == b"bb"


def test_folders_that_are_named_by_values_are_of_the_table(root: Path) -> None:
    """And no others, nor links."""
    folder = root / "allowed" / "day"
    for name in (
        "month=2/day=1",
        "month=10/day=__HIVE_DEFAULT_PARTITION__",
        "month=10/day=a%20b%2Fc",
        "plain",
        "=1",
        "_x=1",
    ):
        (folder / name).mkdir(parents=True)
        (folder / name / "part.parquet").write_bytes(b"xyz")
    (folder / "month=3").symlink_to(root / "other")
    (folder / "month=10" / "_SUCCESS").write_bytes(b"")
    for name in ("a.parquet", "b.parquet"):
        (folder / name).unlink()
    found = Locations([str(root / "allowed")]).files(str(folder))
    assert [(file.name, file.partition) for file in found] == [
        ("month=10/day=__HIVE_DEFAULT_PARTITION__/part.parquet", (("month", "10"), ("day", None))),
        ("month=10/day=a%20b%2Fc/part.parquet", (("month", "10"), ("day", "a b/c"))),
        ("month=2/day=1/part.parquet", (("month", "2"), ("day", "1"))),
    ]
    with open_unchanged(found[2]) as file:
        assert file.read() == b"xyz"
    (folder / "month=2" / "month=3").mkdir()
    with pytest.raises(InvalidRequestError, match="'month=3' lies in another one that has values of 'month'"):
        Locations([str(root / "allowed")]).files(str(folder))


@pytest.mark.parametrize(
    "location",
    [
        "{root}/other",
        "{root}/allowed/../other",
        "{root}/allowed/day/../../other",
        "{root}/allowed-not",
        "{root}/allowed/link",
        "{root}/allowed/link/../../other",
        "/etc",
        "/",
        "{root}/allowed\0/../other",
        "s3://bucket/allowed",
        "file://{root}/allowed",
        "allowed",
        "../other",
        "~/x",
        "",
    ],
)
def test_nothing_outside_the_prefix_is_read(root: Path, location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    (root / "allowed" / "link").symlink_to(root / "other")
    with pytest.raises(InvalidRequestError) as caught:
        Locations([str(root / "allowed")]).files(location.format(root=root))
    assert [fault.column for fault in caught.value.faults] == ["location"]
    assert "a.parquet" not in caught.value.message


@pytest.mark.parametrize(
    "location",
    [
        "s3://bucket/folders/x",
        "s3://bucket",
        "s3://other/folder/x",
        "s3://bucket/folder/../folders",
        "s3://bucket/folder//x",
        "s3://bucket/folder/./x",
        "s3://bucket/folder/%2e%2e/x",
        "s3://bucket/folder/x?list-type=2",
        "s3://bucket/folder/x#y",
        "s3://key:secret@bucket/folder/x",
        "s3:///folder/x",
        "s3://bucket/folder/x\\..\\y",
        "s3://bucket/folder/x\n",
        "S3://bucket/folder/x",
    ],
)
def test_a_place_in_a_bucket_is_below_the_prefix_by_whole_folders(location: str) -> None:
    with pytest.raises(InvalidRequestError):
        Locations(["s3://bucket/folder/"]).check(location)


def test_folders_below_a_prefix_of_a_bucket_may_be_read() -> None:
    assert Locations(["s3://bucket/folder/"]).check("s3://bucket/folder/") == ("bucket", "folder")
    assert Locations(["s3://bucket/folder"]).check("s3://bucket/folder/day=1/") == ("bucket", "folder", "day=1")
    assert Locations(["s3://bucket"]).check("s3://bucket/any") == ("bucket", "any")


def test_no_location_is_read_unless_the_operator_allows_one(root: Path) -> None:
    for location in (str(root / "allowed"), "s3://bucket/folder"):
        with pytest.raises(InvalidRequestError, match="PURSUIT_DATASET_LOCATIONS"):
            Locations().files(location)


def test_what_has_no_files_is_told(root: Path) -> None:
    locations = Locations([str(root / "allowed")])
    for location, said in (("allowed", "no Parquet files"), ("allowed/gone", "no folder")):
        with pytest.raises(InvalidRequestError, match=said):
            locations.files(str(root / location))


def test_a_file_in_place_of_a_folder_is_told(root: Path) -> None:
    """But not of a path below a file, which is nothing."""
    locations = Locations([str(root / "allowed")])
    file = root / "allowed" / "day" / "a.parquet"
    with pytest.raises(InvalidRequestError, match=r"a\.parquet' is a file: name its folder"):
        locations.files(str(file))
    with pytest.raises(InvalidRequestError, match="there is no folder"):
        locations.files(str(file / "more"))


@pytest.mark.parametrize("left_out", ["link.parquet", "link", "folder/", "month=1/link.parquet", "month=1/folder/"])
def test_what_is_there_but_left_out_is_told(root: Path, left_out: str) -> None:
    folder = root / "allowed" / "empty"
    (folder / "month=1").mkdir(parents=True)
    (folder / "month=1" / "_SUCCESS").write_bytes(b"")
    with pytest.raises(InvalidRequestError, match="no Parquet files") as caught:
        Locations([str(root / "allowed")]).files(str(folder))
    assert "left out" not in caught.value.message
    if left_out.endswith("/"):
        (folder / left_out).mkdir()
        (folder / left_out / "a.parquet").write_bytes(b"a")
    else:
        (folder / left_out).symlink_to(root / "allowed" / "day" / ("a.parquet" if "." in left_out else ""))
    with pytest.raises(InvalidRequestError, match="links and folders not named column=value are left out"):
        Locations([str(root / "allowed")]).files(str(folder))


def test_a_file_that_has_changed_is_not_opened(root: Path) -> None:
    folder = root / "allowed" / "day"
    file, other = Locations([str(root)]).files(str(folder))
    path = Path(file.address)
    status = path.stat()
    path.write_bytes(b"A")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    with pytest.raises(ConflictError, match=r"'a\.parquet' of the dataset's location has changed"):
        open_unchanged(file)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    open_unchanged(file).close()
    path.unlink()
    with pytest.raises(ConflictError, match="not there any more"):
        open_unchanged(file)
    path.symlink_to(other.address)
    with pytest.raises(ConflictError):
        open_unchanged(file)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ConflictError):
        open_unchanged(file)
    folder.rename(root / "allowed" / "elsewhere")
    with pytest.raises(NotFoundError):  # as from a machine without the folder
        open_unchanged(other)
